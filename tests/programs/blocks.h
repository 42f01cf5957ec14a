// Blocks of 256 MiB until the driver says no. Included with GET(name) defined as a way to get a
// driver function.
static int blocks(void) {
    CUcontext context;
    CUdevice device;
    size_t total = 0, free_bytes = 0, whole = 0;
    int result = GET(cuInit)(0);
    printf("init=%d\n", result);
    if (result != CUDA_SUCCESS) return 1;
    OK(GET(cuDeviceGet)(&device, 0));
    OK(GET(cuDeviceTotalMem_v2)(&total, device));
    OK(GET(cuDevicePrimaryCtxRetain)(&context, device));
    OK(GET(cuCtxSetCurrent)(context));
    int count = 0;
    CUdeviceptr last = 0;
    while (count < 1000 && (result = GET(cuMemAlloc_v2)(&last, 256 * MIB)) == CUDA_SUCCESS) count++;
    OK(GET(cuMemGetInfo_v2)(&free_bytes, &whole));
    printf("total=%zu\nblocks=%d\nresult=%d\nfree=%zu\nwhole=%zu\n", total, count, result, free_bytes, whole);
    // What reached the driver, refused attempts not counted.
    unsigned long long (*calls)(const char *) = (unsigned long long (*)(const char *))dlsym(cu_driver(), "gpuSimCalls");
    if (calls) printf("driver_calls=%llu\n", calls("cuMemAlloc_v2"));
    stop_here("ready");
    if (count) {
        OK(GET(cuMemFree_v2)(last));
        OK(GET(cuMemGetInfo_v2)(&free_bytes, &whole));
        printf("free_later=%zu\n", free_bytes);
    }
    return 0;
}
