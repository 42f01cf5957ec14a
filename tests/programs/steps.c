// Calls driver functions as its standard input says, a line for each call and a line for each answer.
//
//   cuMemAlloc_v2 &3 1048576        calls it by dlsym; slot 3 receives what it writes
//   cuMemFree_v2 $3                 with the value of slot 3
//   cuMemCreate &4 2097152 {4:1,4:0,4:1,4:0,8:0,8:0} 0
//                                   with a pointer to a structure: WIDTH:VALUE for each field
//   cuIpcGetMemHandle #0 $3         with a pointer to buffer 0
//   *cuIpcOpenMemHandle_v2 &5 #0 1  with buffer 0 as a structure of 64 bytes by value, behind the first argument
//   !set 3 77                       puts a value into a slot
//   !get #0, !put #0 HEX            reads and writes a buffer
//   !load 3 #0 112                  puts eight bytes of a buffer into a slot
//   !fd 3 PID FD                    takes over a file descriptor of another process
//
// An answer is what the function answered, how often the driver's function of that name was called meanwhile, what was
// written to slots, and, behind a tab, the simulator's account (left out after a line that starts with '-').
//
// Every argument of these functions is an integer or a pointer; both are passed alike on the machines of this project, so
// that one type of function serves for all.
// link: -ldl
#include "cu.h"
#include <sys/syscall.h>

#define SLOTS 4096
#define BUFFERS 16
#define ARGUMENTS 12
#define SIZE 512

typedef uint64_t word;
typedef CUresult (*function)(word, word, word, word, word, word, word, word, word, word, word, word);
typedef struct {
    char bytes[64];
} by_value;

static word slots[SLOTS], written[ARGUMENTS];
static unsigned char buffers[BUFFERS][SIZE], structures[ARGUMENTS][SIZE];
static int receiving[ARGUMENTS], receivers;

static void bad(const char *what) {
    fprintf(stderr, "not understood: %s\n", what);
    _exit(93);
}

static word *slot(word number) {
    if (number >= SLOTS) bad("slot");
    return &slots[number];
}

static unsigned char *buffer(const char *token) {
    word number = token[0] == '#' ? strtoull(token + 1, NULL, 10) : BUFFERS;
    if (number >= BUFFERS) bad(token);
    return buffers[number];
}

static word value(const char *text, char **end) {
    if (text[0] == '$') return *slot(strtoull(text + 1, end, 10));
    if (text[0] == '#') {
        strtoull(text + 1, end, 10);
        return (word)(uintptr_t)buffer(text);
    }
    return text[0] == '-' ? (word)strtoll(text, end, 0) : strtoull(text, end, 0);
}

static word structure(char *text, unsigned char *place) {
    size_t used = 0;
    memset(place, 0, SIZE);
    for (text++; *text && *text != '}'; text += *text == ',') {
        size_t width = strtoull(text, &text, 10);
        if (*text != ':' || width > 8) bad(text);
        word field = value(text + 1, &text);
        if (used + width > SIZE) bad("structure");
        memcpy(place + used, &field, width);
        used += width;
    }
    return (word)(uintptr_t)place;
}

static word argument(char *token, int place) {
    char *end;
    if (token[0] == '{') return structure(token, structures[place]);
    if (token[0] == '&') {
        receiving[receivers] = (int)strtoull(token + 1, NULL, 10);
        written[receivers] = 0;
        slot((word)receiving[receivers]);
        return (word)(uintptr_t)&written[receivers++];
    }
    word found = value(token, &end);
    if (*end) bad(token);
    return found;
}

static void *symbol(const char *name) {
    static struct {
        char name[64];
        void *address;
    } known[256];
    int count = 0;
    for (; count < 256 && known[count].address; count++)
        if (!strcmp(known[count].name, name)) return known[count].address;
    void *found = dlsym(cu_driver(), name);
    if (found && count < 256) {
        snprintf(known[count].name, sizeof known->name, "%s", name);
        known[count].address = found;
    }
    return found;
}

static void command(char *name, char **tokens, int count) {
    if (!strcmp(name, "!set") && count == 2) {
        *slot(strtoull(tokens[0], NULL, 10)) = strtoull(tokens[1], NULL, 0);
        printf("0 0");
    } else if (!strcmp(name, "!get") && count == 1) {
        printf("0 0 ");
        for (int at = 0; at < SIZE; at++) printf("%02x", buffer(tokens[0])[at]);
    } else if (!strcmp(name, "!put") && count == 2) {
        unsigned byte;
        for (int at = 0; at < SIZE && sscanf(tokens[1] + 2 * at, "%2x", &byte) == 1; at++)
            buffer(tokens[0])[at] = (unsigned char)byte;
        printf("0 0");
    } else if (!strcmp(name, "!load") && count == 3) {
        word at = strtoull(tokens[2], NULL, 10), found;
        if (at + sizeof found > SIZE) bad(tokens[2]);
        memcpy(&found, buffer(tokens[1]) + at, sizeof found);
        *slot(strtoull(tokens[0], NULL, 10)) = found;
        printf("0 0 %llu", (unsigned long long)found);
    } else if (!strcmp(name, "!fd") && count == 3) {
        long process = syscall(SYS_pidfd_open, atoi(tokens[1]), 0);
        long taken = process < 0 ? -1 : syscall(SYS_pidfd_getfd, process, atoi(tokens[2]), 0);
        if (process >= 0) close((int)process);
        if (taken >= 0) *slot(strtoull(tokens[0], NULL, 10)) = (word)taken;
        printf("%d 0", taken < 0 ? errno : 0);
    } else if (!strcmp(name, "!close") && count == 1) {
        printf("%d 0", close((int)*slot(strtoull(tokens[0], NULL, 10))));
    } else {
        bad(name);
    }
}

static void call(char *name, char **tokens, int count) {
    int structured = name[0] == '*';
    name += structured;
    void *found = symbol(name);
    if (!found) {
        printf("absent 0");
        return;
    }
    word a[ARGUMENTS] = {0};
    receivers = 0;
    for (int i = 0; i < count; i++) a[i] = argument(tokens[i], i);
    word before = CU(gpuSimCalls)(name);
    CUresult answer;
    if (structured) {
        by_value copy;
        memcpy(&copy, (void *)(uintptr_t)a[1], sizeof copy);
        answer = ((CUresult(*)(word, by_value, word, word))found)(a[0], copy, a[2], a[3]);
    } else {
        answer = ((function)found)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    }
    printf("%d %llu", answer, (unsigned long long)(CU(gpuSimCalls)(name) - before));
    for (int i = 0; i < receivers; i++) {
        if (answer == CUDA_SUCCESS) *slot((word)receiving[i]) = written[i];
        printf(" %llu", (unsigned long long)written[i]);
    }
}

int main(void) {
    static char line[4096], account[1 << 20];
    while (fgets(line, sizeof line, stdin)) {
        char *tokens[ARGUMENTS + 1];
        int count = 0;
        for (char *token = strtok(line, " \n"); token; token = strtok(NULL, " \n")) {
            if (count > ARGUMENTS) bad("too many arguments");
            tokens[count++] = token;
        }
        if (!count) continue;
        int quiet = tokens[0][0] == '-';
        char *name = tokens[0] + quiet;
        if (name[0] == '!') {
            command(name, tokens + 1, count - 1);
        } else {
            call(name, tokens + 1, count - 1);
        }
        if (!quiet) {
            int needed = CU(gpuSimSnapshot)(account, sizeof account);
            if (needed < 0 || (size_t)needed > sizeof account) bad("no account");
            printf("\t%s", account);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
