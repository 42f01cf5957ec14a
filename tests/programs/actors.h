// Processes of one program that do as they are told, one step at a time, and hand descriptors to each other.
#ifndef ACTORS_H
#define ACTORS_H
#include "account.h"
#include <sys/socket.h>
#include <sys/wait.h>

typedef struct {
    pid_t pid;
    int commands, answers;
} Actor;

// Every actor has one end for what it sends, and one for what it is sent.
static int sending = -1, receiving = -1;

__attribute__((unused)) static void send_descriptor(int descriptor) {
    char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &descriptor, sizeof(int));
    MUST(sendmsg(sending, &message, 0) == 1);
}

__attribute__((unused)) static int receive_descriptor(void) {
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    MUST(recvmsg(receiving, &message, 0) == 1);
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return descriptor;
}

// Starts a process that runs `act` with each letter that it is told.
static Actor actor(void (*act)(char)) {
    int commands[2], answers[2];
    MUST(!pipe(commands) && !pipe(answers));
    if (sending < 0) {
        int ends[2];
        MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
        sending = ends[0];
        receiving = ends[1];
    }
    fflush(stdout);
    Actor made = {fork(), commands[1], answers[0]};
    if (made.pid) {
        close(commands[0]);
        close(answers[1]);
        return made;
    }
    close(commands[1]);
    close(answers[0]);
    char letter;
    while (read(commands[0], &letter, 1) == 1 && letter) {
        act(letter);
        MUST(write(answers[1], &letter, 1) == 1);
    }
    _exit(0);
}

// Tells an actor to do something, and waits until it is done.
__attribute__((unused)) static void tell(Actor *actor, char letter) {
    char done = 0;
    MUST(write(actor->commands, &letter, 1) == 1);
    if (read(actor->answers, &done, 1) != 1 || done != letter) {
        fprintf(stderr, "the actor failed at '%c'\n", letter);
        _exit(92);
    }
}

// Ends an actor.
__attribute__((unused)) static void dismiss(Actor *actor) {
    int status;
    // Its siblings have the pipe too: it is told to end.
    MUST(write(actor->commands, "", 1) == 1);
    MUST(waitpid(actor->pid, &status, 0) == actor->pid);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
