// Processes that come and go.
//
//   hostile_forks loop    forks children that attach, and kills each at a random moment, until its standard input ends
//   hostile_forks crowd   600 children that attach and stay; prints granted=COUNT
// link: -ldl
#include "hostile.h"
#include <sys/prctl.h>

static void loop(void) {
    for (int rounds = 0; !told_to_end(); rounds++) {
        if (rounds == 300) say("begun");
        pid_t child = fork();
        MUST(child >= 0);
        if (!child) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            ask_as(ATTACH, (uint32_t)getpid());
            for (;;) pause();
        }
        usleep((useconds_t)(hostile_random() % 3000));
        MUST(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
    }
}

static void crowd(void) {
    enum { MANY = 600 };
    int pipes[2], granted = 0;
    MUST(!pipe(pipes));
    for (int at = 0; at < MANY; at++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (!child) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            char yes = 'n';
            // A socket that is full for the moment is asked again, as the library does.
            for (int tries = 0; tries < 200 && yes == 'n'; tries++) {
                int status = ask_as(ATTACH, (uint32_t)getpid()).status;
                if (status == GRANTED) yes = 'y';
                else if (status > 0) break;
                else usleep(5000);
            }
            MUST(write(pipes[1], &yes, 1) == 1);
            for (;;) pause();
        }
    }
    for (int at = 0; at < MANY; at++) {
        char yes;
        MUST(read(pipes[0], &yes, 1) == 1);
        granted += yes == 'y';
    }
    printf("granted=%d\n", granted);
    stop_here("begun");
}

int main(int argc, char **argv) {
    MUST(argc == 2);
    if (!strcmp(argv[1], "loop")) loop();
    else if (!strcmp(argv[1], "crowd")) crowd();
    else return 2;
    return 0;
}
