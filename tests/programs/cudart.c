// What NVIDIA's own runtime library makes of the driver: every answer and its words.
//
//   cudart LIBCUDART
//
// Runs on a machine without a GPU too; then every answer is an error, and must be the same one
// with and without the shim.
// link: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *runtime;

static void *get(const char *name) {
    void *found = dlsym(runtime, name);
    if (!found) {
        printf("no %s\n", name);
        exit(1);
    }
    return found;
}

static void say(const char *what, int result) {
    const char *(*name)(int) = (const char *(*)(int))get("cudaGetErrorName");
    const char *(*words)(int) = (const char *(*)(int))get("cudaGetErrorString");
    printf("%s: %d %s (%s)\n", what, result, name(result), words(result));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    runtime = dlopen(argv[1], RTLD_NOW);
    if (!runtime) {
        printf("%s\n", dlerror());
        return 1;
    }
    int number = -1;
    size_t free_bytes = 0, total = 0;
    void *memory = NULL;
    say("runtime version", ((int (*)(int *))get("cudaRuntimeGetVersion"))(&number));
    printf("%d\n", number);
    number = -1;
    say("driver version", ((int (*)(int *))get("cudaDriverGetVersion"))(&number));
    printf("%d\n", number);
    number = -1;
    say("device count", ((int (*)(int *))get("cudaGetDeviceCount"))(&number));
    printf("%d\n", number);
    say("set device", ((int (*)(int))get("cudaSetDevice"))(0));
    say("free", ((int (*)(void *))get("cudaFree"))(NULL));
    say("malloc", ((int (*)(void **, size_t))get("cudaMalloc"))(&memory, 1 << 20));
    say("memory", ((int (*)(size_t *, size_t *))get("cudaMemGetInfo"))(&free_bytes, &total));
    say("synchronise", ((int (*)(void))get("cudaDeviceSynchronize"))());
    say("last error", ((int (*)(void))get("cudaGetLastError"))());
    return 0;
}
