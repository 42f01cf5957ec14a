// A library that happens to export names of the driver's, and names that only begin like them.
int cuInit(unsigned flags) { return 1000 + (int)flags; }
int cuMemAlloc_v2(unsigned long long *pointer, unsigned long size) { return pointer || size ? 1001 : 1002; }
int cuLaunchKernel(void) { return 1003; }
int cuGetProcAddress(void) { return 1004; }
int cuGetProcAddress_v2(void) { return 1005; }
int nvmlInit_v2(void) { return 1006; }
int cudnnCreate(void) { return 1007; }
int cublasCreate_v2(void) { return 1008; }
int curl_easy_init(void) { return 1009; }
int cudaMalloc(void) { return 1010; }
int cuMemAllo(void) { return 1011; }
