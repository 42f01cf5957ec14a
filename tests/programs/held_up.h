// A thread that is held up inside the driver: where it writes what a call gives to its caller.
#ifndef HELD_UP_H
#define HELD_UP_H
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

static void *place;
static volatile int writes, go_on;
static pthread_t thread;

static void held_up(int signal) {
    (void)signal;
    writes = 1;
    while (!go_on) sched_yield();
    mprotect(place, 4096, PROT_READ | PROT_WRITE);
}

// Runs `call`, which lets the driver write to `place`, until it does.
static void hold_up(void *(*call)(void *)) {
    place = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, held_up);
    pthread_create(&thread, NULL, call, NULL);
    while (!writes) sched_yield();
}

static void let_go(void) {
    go_on = 1;
    pthread_join(thread, NULL);
}
#endif
