"""numba-cuda: a compiled kernel, copies, and device arrays to the limit."""
import warnings

import numpy
from numba import cuda
from numba.core.errors import NumbaPerformanceWarning

from report import BLOCK, fill, report

warnings.simplefilter("ignore", NumbaPerformanceWarning)  # of small grids


@cuda.jit
def add_one(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


def settle():
    cuda.synchronize()
    cuda.current_context().deallocations.clear()


context = cuda.current_context()
info = context.get_memory_info()
host = numpy.arange(1 << 16, dtype=numpy.float32)
stream, event = cuda.stream(), cuda.event()
array = cuda.to_device(host, stream=stream)
same = bool((array.copy_to_host(stream=stream) == host).all())
add_one[256, 256, stream](array)
event.record(stream)
event.synchronize()
del array
settle()
filled = fill(lambda: cuda.device_array(BLOCK, dtype=numpy.uint8), cuda.cudadrv.driver.CudaAPIError, settle)
managed = cuda.managed_array(1024, dtype=numpy.float32)
managed[:] = 7
report(free=info.free, total=info.total, data_survived=same, managed_ok=bool((managed == 7).all()), **filled)
