// Calls from handlers that run at the end of the process and of a thread, as libraries make them.
// link: -ldl
#include "cu.h"

static CUcontext context;
static CUdeviceptr first, second, third;
static pthread_key_t key;

static void say(const char *where, const char *what, int result) {
    printf("%s: %s %d\n", where, what, result);
    fflush(stdout);
}

static void use(const char *where, CUdeviceptr pointer) {
    CUdeviceptr fresh = 0;
    size_t free_bytes = 0, total = 0;
    say(where, "set", CU(cuCtxSetCurrent)(context));
    say(where, "free", CU(cuMemFree_v2)(pointer));
    say(where, "alloc", CU(cuMemAlloc_v2)(&fresh, 4096));
    say(where, "info", CU(cuMemGetInfo_v2)(&free_bytes, &total));
    say(where, "launch", cu_work(NULL, 1000));
    say(where, "synchronise", CU(cuCtxSynchronize)());
}

static void registered_before(void) { use("atexit, registered before", first); }
static void registered_after(void) { use("atexit, registered after", second); }
static void thread_end(void *value) {
    (void)value;
    use("thread's end", third);
}
__attribute__((destructor)) static void unloaded(void) { use("destructor", 0); }

static void *thread(void *argument) {
    pthread_setspecific(key, &key);
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuMemAlloc_v2)(&third, 4096));
    return argument;
}

int main(void) {
    atexit(registered_before);
    pthread_key_create(&key, thread_end);
    context = cu_begin();
    cu_kernel("sim_work");
    OK(CU(cuMemAlloc_v2)(&first, 4096));
    OK(CU(cuMemAlloc_v2)(&second, 4096));
    atexit(registered_after);
    pthread_t other;
    MUST(!pthread_create(&other, NULL, thread, NULL));
    pthread_join(other, NULL);
    return 0;
}
