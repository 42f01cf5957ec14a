"""Taichi: a kernel over a field, then arrays to the limit."""
import taichi as ti

from report import BLOCK, MIB, fill, report

ti.init(arch=ti.cuda, offline_cache=False, log_level=ti.ERROR)
x = ti.field(ti.f32, shape=1 << 18)


@ti.kernel
def add_one():
    for i in x:
        x[i] += 1.0


for _ in range(20):
    add_one()
ti.sync()
arch = str(ti.lang.impl.current_cfg().arch)
filled = fill(lambda: ti.ndarray(ti.u8, shape=BLOCK), RuntimeError, ti.sync)
report(arch=arch, **filled)
