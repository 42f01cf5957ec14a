// Attaches as any other process, takes 64 MiB, and then does to its usage region what it likes, until its standard input ends.
//
//   hostile_usage random      any words anywhere, by its mapping
//   hostile_usage ones        all ones everywhere, then all zeroes, and again
//   hostile_usage owners      owners of slots that are not there, and everybody's made up anew
//   hostile_usage sizes       sizes and counts beyond everything, memory above every limit in every slot
//   hostile_usage truncate    no byte, then some
//   hostile_usage grow        as many bytes as the file system lets it have
//   hostile_usage punch       holes
//   hostile_usage lease       a lease and a lock, which it does not give up when asked
//   hostile_usage mode        nobody may open it
//   hostile_usage release     says that it holds nothing, and takes four times 512 MiB; prints how often it got them
// link: -ldl
#include "hostile.h"
#include <sys/file.h>

static int usage;
static _Atomic uint64_t *words;
static uint64_t rounds;

static void begun_after(uint64_t enough) {
    if (++rounds == enough) say("begun");
}

static void scribble_random(void) {
    for (int times = 0; times < 4096; times++) words[hostile_random() % (USAGE_BYTES / 8)] = hostile_random();
    usleep(1000);
    begun_after(50);
}

static void scribble_ones(void) {
    uint64_t value = rounds % 2 ? 0 : UINT64_MAX;
    for (size_t at = 0; at < USAGE_BYTES / 8; at++) words[at] = value;
    usleep(1000);
    begun_after(50);
}

static void scribble_owners(void) {
    for (size_t slot = 0; slot < SLOTS; slot++)
        for (int word = 0; word < 4; word++) words[(USAGE_SLOTS + slot * SLOT_BYTES) / 8 + (size_t)word] = hostile_random();
    words[USAGE_HIGH_WATER / 8] = SLOTS;
    usleep(1000);
    begun_after(50);
}

static void scribble_sizes(void) {
    words[USAGE_HIGH_WATER / 8] = rounds % 2 ? UINT64_MAX : SLOTS;
    words[USAGE_SIZE / 8] = rounds % 3 ? UINT64_MAX : 0;
    words[32 / 8] = words[40 / 8] = UINT64_MAX - rounds % 2;
    for (size_t at = 0; at < (size_t)DEVICES * SLOTS; at++) words[USAGE_MEMORY / 8 + at] = UINT64_MAX >> (hostile_random() % 40);
    usleep(1000);
    begun_after(50);
}

static void truncate_it(void) {
    MUST(!ftruncate(usage, 0));
    usleep(2000);
    MUST(!ftruncate(usage, (off_t)(hostile_random() % USAGE_BYTES)));
    usleep(2000);
    begun_after(50);
}

static void grow(void) {
    static uint64_t grown;
    off_t step = 1 << 20;
    struct stat about;
    MUST(!fstat(usage, &about));
    // 1 GiB would tell of a file system without a bound as well, and not harm the machine.
    while (about.st_size < (off_t)1 << 30 && !fallocate(usage, 0, about.st_size, step)) about.st_size += step;
    MUST(!fstat(usage, &about));
    uint64_t bytes = (uint64_t)about.st_blocks * 512;
    if (bytes > grown) grown = bytes;
    if (rounds == 3) printf("grown=%lu\n", grown);
    usleep(10000);
    begun_after(5);
}

static void punch(void) {
    off_t at = (off_t)(hostile_random() % USAGE_BYTES) & ~4095;
    MUST(!fallocate(usage, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 4096 * (off_t)(1 + hostile_random() % 8)));
    begun_after(1000);
}

static void lease(void) {
    if (!rounds) {
        printf("lease=%d\nlock=%d\nrecord=%d\n", fcntl(usage, F_SETLEASE, F_WRLCK), flock(usage, LOCK_EX | LOCK_NB),
               fcntl(usage, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET}));
        signal(SIGIO, SIG_IGN);
    }
    usleep(10000);
    begun_after(1);
}

static void mode(void) {
    if (!rounds) printf("mode=%d\n", fchmod(usage, 0));
    usleep(10000);
    begun_after(1);
}

static void release(void) {
    for (size_t at = 0; at < (size_t)DEVICES * SLOTS; at++) words[USAGE_MEMORY / 8 + at] = 0;
    static int got;
    CUdeviceptr block;
    if (rounds < 4) {
        got += CU(cuMemAlloc_v2)(&block, 512 * MIB) == CUDA_SUCCESS;
        if (rounds == 3) printf("got=%d\n", got);
    }
    usleep(1000);
    begun_after(5);
}

int main(int argc, char **argv) {
    MUST(argc == 2);
    CUdeviceptr block;
    cu_begin();
    OK(CU(cuMemAlloc_v2)(&block, 64 * MIB));
    usage = attach().usage;
    words = mmap(NULL, USAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, usage, 0);
    MUST(words != MAP_FAILED);
    static const struct {
        const char *name;
        void (*way)(void);
    } ways[] = {{"random", scribble_random}, {"ones", scribble_ones}, {"owners", scribble_owners}, {"sizes", scribble_sizes},
                {"truncate", truncate_it},   {"grow", grow},          {"punch", punch},            {"lease", lease},
                {"mode", mode},              {"release", release}};
    for (size_t at = 0; at < sizeof ways / sizeof *ways; at++)
        if (!strcmp(argv[1], ways[at].name)) {
            while (!told_to_end()) ways[at].way();
            _exit(0);
        }
    return 2;
}
