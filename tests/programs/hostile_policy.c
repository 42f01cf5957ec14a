// Tries to change its policy.
//
//   hostile_policy write       by its descriptor, in every way that there is; prints one line NAME=ERRNO for each, 0 where it succeeded
//   hostile_policy path FILE   by the file's name
//   hostile_policy over MIB    maps pages of its own over the library's mapping, without a limit in them, takes so many MiB, and
//                              keeps them until its standard input ends; prints got=RESULT
// link: -ldl
#include "hostile.h"
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/xattr.h>

static int failures_of(long result) {
    return result < 0 ? errno : 0;
}

#define TRY(name, call) printf(name "=%d\n", failures_of((long)(call)))

static long opened(const char *path, int flags) {
    int file = open(path, flags | O_CLOEXEC);
    if (file < 0) return -1;
    uint64_t all = UINT64_MAX;
    return pwrite(file, &all, 8, POLICY_ROWS + ROW_MEMORY) == 8 ? 0 : -1;
}

static long mapped(int file, int protection) {
    void *pages = mmap(NULL, POLICY_BYTES, protection, MAP_SHARED, file, 0);
    return pages == MAP_FAILED ? -1 : 0;
}

// Into the pages of the mapping, past its protection.
static long by_memory_file(void *pages) {
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (memory < 0) return -1;
    uint64_t mine = 0x1234567812345678;
    uint64_t before = *(volatile uint64_t *)((char *)pages + POLICY_ROWS + ROW_MEMORY);
    ssize_t wrote = pwrite(memory, &mine, 8, (off_t)(uintptr_t)pages + POLICY_ROWS + ROW_MEMORY);
    close(memory);
    (void)before;
    return wrote == 8 ? 0 : -1;
}

static void by_descriptor(void) {
    int policy = attach().policy;
    char self[64];
    uint64_t all = UINT64_MAX;
    snprintf(self, sizeof self, "/proc/self/fd/%d", policy);
    void *pages = mmap(NULL, POLICY_BYTES, PROT_READ, MAP_SHARED, policy, 0);
    MUST(pages != MAP_FAILED);
    TRY("pwrite", pwrite(policy, &all, 8, POLICY_ROWS + ROW_MEMORY));
    TRY("map", mapped(policy, PROT_READ | PROT_WRITE));
    TRY("protect", mprotect(pages, POLICY_BYTES, PROT_READ | PROT_WRITE));
    TRY("memory_file", by_memory_file(pages));
    TRY("reopen", opened(self, O_RDWR));
    TRY("reopen_write", opened(self, O_WRONLY));
    TRY("reopen_truncate", opened(self, O_RDWR | O_TRUNC));
    char pages_as_file[96];
    snprintf(pages_as_file, sizeof pages_as_file, "/proc/self/map_files/%lx-%lx", (long)pages, (long)pages + 3 * 4096);
    TRY("reopen_pages", opened(pages_as_file, O_RDWR));
    TRY("truncate", ftruncate(policy, 0));
    TRY("truncate_path", truncate(self, 0));
    TRY("allocate", fallocate(policy, 0, 0, 1 << 20));
    TRY("punch", fallocate(policy, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    TRY("mode", fchmod(policy, 0666));
    TRY("mode_path", chmod(self, 0666));
    TRY("owner", fchown(policy, 65534, 65534));
    TRY("seal", fcntl(policy, F_ADD_SEALS, 0xf));
    TRY("attribute", fsetxattr(policy, "user.a", "b", 1, 0));
    TRY("times", futimens(policy, NULL));
    int flags = 0x10;
    TRY("immutable", ioctl(policy, FS_IOC_SETFLAGS, &flags));
    TRY("link", linkat(AT_FDCWD, self, AT_FDCWD, "/tmp/hostile-link", AT_SYMLINK_FOLLOW));
    // May succeed: nobody else minds.
    printf("lock %d lease %d\n", flock(policy, LOCK_EX | LOCK_NB), fcntl(policy, F_SETLEASE, F_RDLCK));
    stop_here("tried");
}

static void by_path(const char *path) {
    TRY("open", opened(path, O_RDWR));
    TRY("truncate", truncate(path, 0));
    TRY("mode", chmod(path, 0666));
    TRY("unlink", unlink(path));
    TRY("rename", rename(path, "/tmp/hostile-renamed"));
    stop_here("tried");
}

// Where the library has mapped its policy: read-only, shared, and with a policy's first word.
static void *librarys(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    MUST(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3 || strcmp(rights, "r--s")) continue;
        if (end - begin >= POLICY_BYTES && !memcmp((void *)begin, "GPUPOLCY", 8)) {
            fclose(maps);
            return (void *)begin;
        }
    }
    fclose(maps);
    return NULL;
}

static void over(uint64_t mib) {
    CUdeviceptr block;
    cu_begin();
    char *pages = librarys();
    MUST(pages);
    char *copy = malloc(POLICY_BYTES);
    MUST(copy);
    memcpy(copy, pages, POLICY_BYTES);
    for (int row = 0; row < DEVICES; row++)
        *(uint64_t *)(copy + POLICY_ROWS + row * ROW_BYTES + ROW_MEMORY) = UINT64_MAX;
    MUST(mmap(pages, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == pages);
    memcpy(pages, copy, POLICY_BYTES);
    printf("got=%d\n", CU(cuMemAlloc_v2)(&block, mib * MIB));
    stop_here("tried");
}

int main(int argc, char **argv) {
    MUST(argc >= 2);
    if (!strcmp(argv[1], "write")) by_descriptor();
    else if (!strcmp(argv[1], "path") && argc == 3) by_path(argv[2]);
    else if (!strcmp(argv[1], "over") && argc == 3) over(strtoull(argv[2], NULL, 10));
    else return 2;
    return 0;
}
