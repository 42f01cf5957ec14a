// A thread that is cancelled (deferred, as is the default) while it calls the driver. Bare, such a call is no cancellation
// point, and the program goes on.
//
//   cancelled init|refused|info
// link: -ldl
#include "cu.h"

static CUcontext context;
static const char *way;

static void *run(void *argument) {
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    cu_driver();
    CUdeviceptr pointer;
    size_t free, total;
    CUresult (*init)(unsigned) = CU(cuInit);
    CUresult (*alloc)(CUdeviceptr *, size_t) = CU(cuMemAlloc_v2);
    CUresult (*info)(size_t *, size_t *) = CU(cuMemGetInfo_v2);
    if (context) OK(CU(cuCtxSetCurrent)(context));
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    if (!strcmp(way, "init")) init(0);
    else if (!strcmp(way, "refused")) alloc(&pointer, 4 * GIB);
    else if (!strcmp(way, "info")) info(&free, &total);
    else return NULL;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    printf("after the call\n");
    fflush(stdout);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    pthread_testcancel();
    return argument;
}

int main(int argc, char **argv) {
    MUST(argc == 2);
    way = argv[1];
    if (strcmp(way, "init")) context = cu_begin();
    pthread_t thread;
    MUST(!pthread_create(&thread, NULL, run, NULL));
    void *answer;
    pthread_join(thread, &answer);
    printf("cancelled=%d\n", answer == PTHREAD_CANCELED);
    CUdeviceptr pointer;
    context = cu_begin();
    printf("alloc=%d\n", CU(cuMemAlloc_v2)(&pointer, MIB));
    return 0;
}
