// cuInit in a thread with hardly any stack.
//
//   small_init BYTES
// link: -ldl
#include "cu.h"

static void *run(void *unused) {
    printf("init %d\n", CU(cuInit)(0));
    return unused;
}

int main(int argc, char **argv) {
    pthread_attr_t attributes;
    pthread_t thread;
    MUST(argc == 2);
    CU(cuInit);
    MUST(!pthread_attr_init(&attributes));
    MUST(!pthread_attr_setstacksize(&attributes, strtoul(argv[1], NULL, 10)));
    MUST(!pthread_create(&thread, &attributes, run, NULL));
    MUST(!pthread_join(thread, NULL));
    return 0;
}
