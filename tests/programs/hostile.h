// What the hostile programs share: the exchange at a container's socket without the library, as anybody can write it who
// has read docs/shared-memory.md.
#ifndef HOSTILE_H
#define HOSTILE_H

#include "cu.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { QUESTION_BYTES = 64, ANSWER_BYTES = 512, ATTACH = 1, VIEW = 2 };
enum { GRANTED = 0 };
// Offsets in a policy, and in a usage region.
enum { POLICY_BYTES = 0x2080, POLICY_BELL = 32, POLICY_ROWS = 0x80, ROW_BYTES = 128, ROW_MEMORY = 16, ROW_MODE = 40 };
enum { USAGE_BYTES = 0x4b080, USAGE_SIZE = 8, USAGE_HIGH_WATER = 24, USAGE_SLOTS = 0x2080, SLOT_BYTES = 64, USAGE_MEMORY = 0xa080 };
enum { SLOTS = 512, DEVICES = 32 };

struct regions {
    int status, policy, usage;
};

__attribute__((unused)) static struct sockaddr_un socket_address(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("GPU_QUOTA_SOCKET");
    MUST(path && strlen(path) < sizeof address.sun_path);
    strcpy(address.sun_path, path);
    return address;
}

// A connection to the container's socket; -1 with errno.
__attribute__((unused)) static int connected(int flags) {
    struct sockaddr_un address = socket_address();
    int peer = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    if (peer < 0) return -1;
    if (!connect(peer, (struct sockaddr *)&address, sizeof address)) return peer;
    int error = errno;
    close(peer);
    errno = error;
    return -1;
}

__attribute__((unused)) static uint64_t inode(const char *path) {
    struct stat about;
    return stat(path, &about) ? 0 : about.st_ino;
}

__attribute__((unused)) static uint64_t start_time(void) {
    char text[4096];
    FILE *file = fopen("/proc/self/stat", "r");
    if (!file) return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

__attribute__((unused)) static void question(unsigned char *bytes, uint32_t purpose, uint32_t pid) {
    uint16_t versions[] = {1, 1};
    uint32_t words[] = {purpose, 3, 1, pid};
    uint64_t longs[] = {start_time(), inode("/proc/self/ns/pid"), 7};
    memset(bytes, 0, QUESTION_BYTES);
    memcpy(bytes, "GQAS", 4);
    memcpy(bytes + 4, versions, sizeof versions);
    memcpy(bytes + 8, words, sizeof words);
    memcpy(bytes + 24, longs, sizeof longs);
}

// Waits for an answer, at most 10 s. The status is -1 where there is none.
__attribute__((unused)) static struct regions answer(int peer) {
    struct regions found = {.status = -1, .policy = -1, .usage = -1};
    unsigned char bytes[ANSWER_BYTES];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct timeval limit = {.tv_sec = 10};
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(peer, &message, MSG_CMSG_CLOEXEC);
    if (got < 16 || memcmp(bytes, "GQAN", 4)) return found;
    uint16_t status;
    memcpy(&status, bytes + 6, 2);
    found.status = status;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len >= CMSG_LEN(2 * sizeof(int))) {
        int both[2];
        memcpy(both, CMSG_DATA(header), sizeof both);
        found.policy = both[0], found.usage = both[1];
    }
    return found;
}

__attribute__((unused)) static struct regions ask_as(uint32_t purpose, uint32_t pid) {
    struct regions none = {.status = -1, .policy = -1, .usage = -1};
    unsigned char bytes[QUESTION_BYTES];
    int peer = connected(0);
    if (peer < 0) return none;
    question(bytes, purpose, pid);
    struct regions found = none;
    if (send(peer, bytes, sizeof bytes, MSG_NOSIGNAL) == sizeof bytes) found = answer(peer);
    close(peer);
    return found;
}

// Both regions, which an honest question gets.
__attribute__((unused)) static struct regions attach(void) {
    struct regions found = ask_as(ATTACH, (uint32_t)getpid());
    MUST(found.status == GRANTED && found.policy >= 0 && found.usage >= 0);
    return found;
}

__attribute__((unused)) static uint64_t hostile_random(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

// Whether the tester has ended our standard input.
__attribute__((unused)) static int told_to_end(void) {
    static int once;
    if (!once++) fcntl(0, F_SETFL, O_NONBLOCK);
    char byte;
    return read(0, &byte, 1) == 0;
}

__attribute__((unused)) static void say(const char *mark) {
    printf("%s\n", mark);
    fflush(stdout);
}

#endif
