// Misuses its container's socket.
//
//   hostile_socket silent        as many connections as it gets, and never a word
//   hostile_socket half          part of a question in each
//   hostile_socket flood         10,000 connections, each left at once, and again
//   hostile_socket deaf          questions whose answers it never takes
//   hostile_socket malformed     messages that are no questions, of all lengths and contents
//   hostile_socket descriptors   250 descriptors beside each question, and beside what is none
//   hostile_socket pid PID       a question in the name of another process; prints its answer's status
//   hostile_socket views         10,000 questions to be shown the regions, whose descriptors it keeps
//
// All but `pid` go on until their standard input ends.
// link: -ldl
#include "hostile.h"

enum { MANY = 10000 };

static int open_ones[MANY];
static int count;

static void keep(int peer) {
    if (count < MANY) open_ones[count++] = peer;
    else close(peer);
}

static void leave_all(void) {
    while (count) close(open_ones[--count]);
}

// Waits at the limit of what the socket takes, and tries again.
static int next_connection(void) {
    int peer = connected(SOCK_NONBLOCK);
    if (peer < 0) usleep(2000);
    return peer;
}

static void hold_many(int bytes) {
    unsigned char text[QUESTION_BYTES];
    question(text, ATTACH, (uint32_t)getpid());
    for (int tries = 0; !told_to_end(); tries++) {
        if (tries == 500) say("begun");
        int peer = next_connection();
        if (peer < 0) continue;
        if (bytes) send(peer, text, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        keep(peer);
    }
}

static void flood(void) {
    for (int rounds = 0; !told_to_end();) {
        int peer = connected(SOCK_NONBLOCK);
        if (peer >= 0) close(peer);
        else usleep(100);
        if (++rounds == MANY) say("begun");
    }
}

static void deaf(void) {
    unsigned char text[QUESTION_BYTES];
    question(text, VIEW, (uint32_t)getpid());
    for (int rounds = 0; !told_to_end(); rounds++) {
        if (rounds == 500) say("begun");
        int peer = next_connection();
        if (peer < 0) continue;
        for (int times = 0; times < 20; times++) send(peer, text, sizeof text, MSG_NOSIGNAL | MSG_DONTWAIT);
        keep(peer);
        if (count > 2000) leave_all();
    }
}

static void malformed(void) {
    static unsigned char text[70000];
    for (int rounds = 0; !told_to_end(); rounds++) {
        if (rounds == 3000) say("begun");
        int peer = next_connection();
        if (peer < 0) continue;
        size_t length = hostile_random() % (rounds % 16 ? 200 : sizeof text);
        for (size_t at = 0; at < length; at++) text[at] = (unsigned char)hostile_random();
        if (rounds % 2 && length >= QUESTION_BYTES) {
            // Nearly a question.
            question(text, ATTACH, (uint32_t)getpid());
            text[hostile_random() % 24] ^= (unsigned char)(1 << hostile_random() % 8);
        }
        send(peer, text, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(peer);
    }
}

static void descriptors(void) {
    enum { SENT = 250 };
    unsigned char text[QUESTION_BYTES];
    static union {
        struct cmsghdr header;
        char room[CMSG_SPACE(SENT * sizeof(int))];
    } control;
    int pipes[2], sent[SENT];
    MUST(!pipe(pipes));
    for (int at = 0; at < SENT; at++) sent[at] = pipes[1];
    for (int rounds = 0; !told_to_end(); rounds++) {
        if (rounds == 1000) say("begun");
        int peer = next_connection();
        if (peer < 0) continue;
        question(text, VIEW, (uint32_t)getpid());
        if (rounds % 2) text[0] = 'X';
        struct iovec part = {text, sizeof text};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof sent);
        memcpy(CMSG_DATA(header), sent, sizeof sent);
        sendmsg(peer, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(peer);
    }
}

static void views(void) {
    for (int rounds = 0; !told_to_end(); rounds++) {
        if (rounds == 2000) say("begun");
        struct regions found = ask_as(VIEW, (uint32_t)getpid());
        if (found.policy >= 0) keep(found.policy), keep(found.usage);
        if (count > 8000) leave_all();
    }
}

int main(int argc, char **argv) {
    MUST(argc >= 2);
    signal(SIGPIPE, SIG_IGN);
    struct rlimit all;
    MUST(!getrlimit(RLIMIT_NOFILE, &all));
    all.rlim_cur = all.rlim_max;
    MUST(!setrlimit(RLIMIT_NOFILE, &all));
    char *way = argv[1];
    if (!strcmp(way, "silent")) hold_many(0);
    else if (!strcmp(way, "half")) hold_many(20);
    else if (!strcmp(way, "flood")) flood();
    else if (!strcmp(way, "deaf")) deaf();
    else if (!strcmp(way, "malformed")) malformed();
    else if (!strcmp(way, "descriptors")) descriptors();
    else if (!strcmp(way, "views")) views();
    else if (!strcmp(way, "pid") && argc == 3) printf("status=%d\n", ask_as(ATTACH, (uint32_t)atoi(argv[2])).status);
    else return 2;
    return 0;
}
