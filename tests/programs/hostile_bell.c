// Rings the daemon's bell without a pause, with several threads, until its standard input ends.
// link: -ldl
#include "hostile.h"
#include <linux/futex.h>

enum { THREADS = 4 };
static _Atomic int over;
static _Atomic uint64_t rung;
static char *policy;

static void *ring(void *nothing) {
    while (!over) {
        syscall(SYS_futex, policy + POLICY_BELL, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
        if (++rung == 200000) say("begun");
    }
    return nothing;
}

int main(void) {
    pthread_t threads[THREADS];
    policy = mmap(NULL, POLICY_BYTES, PROT_READ, MAP_SHARED, attach().policy, 0);
    MUST(policy != MAP_FAILED);
    for (int at = 0; at < THREADS; at++) MUST(!pthread_create(&threads[at], NULL, ring, NULL));
    while (!told_to_end()) usleep(1000);
    over = 1;
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    printf("rung=%lu\n", rung);
    return 0;
}
