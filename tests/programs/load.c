// Takes and gives back memory and launches kernels until told otherwise, and keeps an account of it in a file that the
// tester reads meanwhile, and holds it still by.
//
//   load FILE SEED KERNEL_NS MOST_MIB
//
// Sizes are of all kinds. It holds MOST_MIB at most; what is refused on the way is counted, and it goes on. KERNEL_NS 0:
// memory only, MOST_MIB 0: launches only. FILE has 4096 bytes of zeroes.
// link: -ldl
#include "cu.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { RUN, HOLD, END };
enum { BLOCKS = 64 };

// The tester knows the same order of words: src/progress.rs.
struct account {
    _Atomic uint64_t command, held_still, launches, allocations, refusals, held, longest_ns, ready;
};

static struct account *account;
static uint64_t state;

static uint64_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

// As the driver rounds, and so what the quota counts.
static uint64_t rounded(uint64_t bytes) {
    return (bytes + 511) & ~511ull;
}

static struct { CUdeviceptr address; uint64_t bytes; } blocks[BLOCKS];

static void change(uint64_t most) {
    unsigned index = next() % BLOCKS;
    if (blocks[index].bytes) {
        OK(CU(cuMemFree_v2)(blocks[index].address));
        account->held -= rounded(blocks[index].bytes);
        blocks[index].bytes = 0;
        return;
    }
    uint64_t bytes = 1 + next() % (next() % 4 ? 4 * MIB : 200 * MIB);
    if (account->held + rounded(bytes) > most) return;
    CUresult result = CU(cuMemAlloc_v2)(&blocks[index].address, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        account->refusals++;
        return;
    }
    OK(result);
    blocks[index].bytes = bytes;
    account->held += rounded(bytes);
    account->allocations++;
}

static void hold_still(void) {
    OK(CU(cuCtxSynchronize)());
    account->held_still = 1;
    while (account->command == HOLD) usleep(500);
    account->held_still = 0;
}

int main(int argc, char **argv) {
    MUST(argc == 5);
    int file = open(argv[1], O_RDWR | O_CLOEXEC);
    MUST(file >= 0);
    account = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(account != MAP_FAILED);
    close(file);
    state = strtoull(argv[2], NULL, 10) * 2 + 1;
    uint64_t kernel_ns = strtoull(argv[3], NULL, 10), most = strtoull(argv[4], NULL, 10) * MIB;
    cu_begin();
    CUfunction work = cu_kernel("sim_work");
    void *arguments[] = {&kernel_ns};
    account->ready = 1;
    for (uint64_t round = 0; account->command != END; round++) {
        if (account->command == HOLD) hold_still();
        if (most && (round % 8 == 0 || !kernel_ns)) change(most);
        if (!kernel_ns) {
            usleep(1000);
            continue;
        }
        uint64_t begin = now_ns();
        OK(cu_launch(work, NULL, arguments));
        uint64_t took = now_ns() - begin;
        account->launches++;
        if (took > account->longest_ns) account->longest_ns = took;
    }
    OK(CU(cuCtxSynchronize)());
    printf("launches=%lu\nallocations=%lu\nrefusals=%lu\n", account->launches, account->allocations, account->refusals);
    return 0;
}
