// Prints the simulator's account again and again, a line each time, until its standard input ends: the busy time of every tenant
// on every device, at short distances.
//
//   watch PERIOD_US
// link: -ldl
#include "cu.h"
#include <poll.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    __typeof__(gpuSimSnapshot) *snapshot = CU(gpuSimSnapshot);
    static char json[1 << 20];
    uint64_t period = strtoull(argv[1], NULL, 10) * 1000, due = now_ns();
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (; poll(&input, 1, 0) == 0; due += period) {
        MUST(snapshot(json, sizeof json) < (int)sizeof json);
        // A line is a look.
        for (char *end; (end = strchr(json, '\n'));) *end = ' ';
        puts(json);
        fflush(stdout);
        struct timespec time = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    }
    return 0;
}
