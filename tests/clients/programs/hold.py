"""Holds `hold.py BYTES` of device memory until stdin ends, after one line that says what the driver shows."""
import json
import os
import sys

from cuda.bindings import driver


def ok(answer):
    code, *values = answer
    assert code == driver.CUresult.CUDA_SUCCESS, code.name
    return values[0] if len(values) == 1 else values


ok(driver.cuInit(0))
device = ok(driver.cuDeviceGet(0))
ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(device))))
block = ok(driver.cuMemAlloc(int(sys.argv[1])))
free, total = ok(driver.cuMemGetInfo())
print(json.dumps({"pid": os.getpid(), "free": free, "total": total}), flush=True)
sys.stdin.read()
