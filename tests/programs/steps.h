// Runs a child instruction by instruction where its path lies in the shim or in this program, and kills it at one of them.
//
// A unit is one instruction there, or a short walk inside the driver. Whatever else the path calls runs at full speed up to its
// return: a breakpoint is put where it returns to.
#ifndef STEPS_H
#define STEPS_H

#include <link.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

// Units that one call of the driver counts for, and instructions that each of them is.
enum { DRIVER_UNITS = 12, DRIVER_STRIDE = 23 };

enum where { BEFORE, INSIDE, AFTER, OUTSIDE, WHERE };
__attribute__((unused)) static const char *const where_names[] = {"before the driver", "in the driver", "after the driver",
                                                                   "between calls"};

struct range {
    uintptr_t from, to;
};
static struct range shim_code, driver_code, own_code;

extern char __executable_start, etext;

static int find_code(struct dl_phdr_info *info, size_t size, void *nothing) {
    (void)size, (void)nothing;
    struct range *range = NULL;
    if (strstr(info->dlpi_name, "libquota_shim")) range = &shim_code;
    if (strstr(info->dlpi_name, "libcuda.so")) range = &driver_code;
    for (int i = 0; range && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        range->from = info->dlpi_addr + part->p_vaddr;
        range->to = range->from + part->p_memsz;
    }
    return 0;
}

__attribute__((unused)) static void find_all_code(void) {
    cu_driver();
    dl_iterate_phdr(find_code, NULL);
    own_code = (struct range){(uintptr_t)&__executable_start, (uintptr_t)&etext};
    MUST(shim_code.from && driver_code.from);
}

static int lies_in(struct range range, uintptr_t address) {
    return address >= range.from && address < range.to;
}

static int is_stepped(uintptr_t address) {
    return lies_in(shim_code, address) || lies_in(own_code, address);
}

// A path is run between these two.
__attribute__((noinline)) static void path_begins(void) {
    __asm__ volatile("int3" ::: "memory");
}
__attribute__((noinline)) static void path_ends(void) {
    __asm__ volatile("nop" ::: "memory");
}

// Whether a process may be traced here; a container may forbid it.
static int may_trace(void) {
    int status = 1;
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0);
    MUST(waitpid(child, &status, 0) == child);
    if (status) puts("skipped: no process may be traced here");
    return !status;
}

// Waits for the child's next stop; 0 if it has ended.
static int next_stop(pid_t child) {
    int status;
    for (;;) {
        MUST(waitpid(child, &status, __WALL) == child);
        if (!WIFSTOPPED(status)) return 0;
        if (WSTOPSIG(status) == SIGTRAP) return 1;
        MUST(!ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)WSTOPSIG(status)));
    }
}

static struct user_regs_struct registers(pid_t child) {
    struct user_regs_struct regs;
    MUST(!ptrace(PTRACE_GETREGS, child, NULL, &regs));
    return regs;
}

__attribute__((unused)) static int step(pid_t child) {
    MUST(!ptrace(PTRACE_SINGLESTEP, child, NULL, NULL));
    return next_stop(child);
}

// Runs until the frame at `stack` returns to `address`.
__attribute__((unused)) static int run_to(pid_t child, uintptr_t address, uintptr_t stack) {
    long code = ptrace(PTRACE_PEEKTEXT, child, (void *)address, NULL);
    for (;;) {
        MUST(!ptrace(PTRACE_POKETEXT, child, (void *)address, (void *)((code & ~0xffL) | 0xcc)));
        MUST(!ptrace(PTRACE_CONT, child, NULL, NULL));
        if (!next_stop(child)) return 0;
        struct user_regs_struct regs = registers(child);
        MUST(regs.rip == address + 1);
        regs.rip = address;
        MUST(!ptrace(PTRACE_SETREGS, child, NULL, &regs));
        MUST(!ptrace(PTRACE_POKETEXT, child, (void *)address, (void *)code));
        if (regs.rsp == stack) return 1;
        // The same place, further down the stack.
        if (!step(child)) return 0;
    }
}

// The exported function that an address lies in; the child has everything where this program has it.
static const char *function_at(uintptr_t address) {
    Dl_info info;
    return dladdr((void *)address, &info) && info.dli_sname ? info.dli_sname : "";
}

// Where each unit of a path lies.
struct units {
    long count;
    unsigned char where[1 << 20];
};

__attribute__((unused)) static void add_units(struct units *units, long unit, long count, enum where where) {
    MUST(unit + count < (long)sizeof units->where);
    memset(units->where + unit, where, (size_t)count);
    units->count = unit + count;
}

// Kills the child at unit `target` of its path and says where that was; or lets it run to the path's end, notes its
// units, and kills it there.
__attribute__((unused)) static enum where kill_at(pid_t child, long target, struct units *units) {
    long unit = 0;
    enum where where = OUTSIDE;
    // The hook that the path is in.
    const char *hook = "";
    MUST(next_stop(child));
    for (;;) {
        struct user_regs_struct regs = registers(child);
        uintptr_t at = regs.rip;
        if (at == (uintptr_t)path_ends) break;
        if (lies_in(own_code, at)) where = OUTSIDE;
        if (lies_in(shim_code, at) && where == OUTSIDE) {
            where = BEFORE;
            hook = function_at(at);
        }
        if (is_stepped(at)) {
            if (unit == target) break;
            if (units) add_units(units, unit, 1, where);
            unit++;
            if (!step(child)) goto died;
            continue;
        }
        uintptr_t back = (uintptr_t)ptrace(PTRACE_PEEKDATA, child, (void *)regs.rsp, NULL);
        if (lies_in(driver_code, at)) {
            if (target >= 0 && target < unit + DRIVER_UNITS) {
                for (long left = (target - unit) * DRIVER_STRIDE; left > 0; left--)
                    if (!step(child)) goto died;
                where = INSIDE;
                break;
            }
            if (units) add_units(units, unit, DRIVER_UNITS, INSIDE);
            unit += DRIVER_UNITS;
            // What the hook asks the driver besides does not count.
            if (!strcmp(function_at(at), hook)) where = AFTER;
        }
        if (is_stepped(back)) {
            if (!run_to(child, back, regs.rsp + 8)) goto died;
        } else {
            do {
                if (!step(child)) goto died;
            } while (!is_stepped(registers(child).rip));
        }
    }
    kill(child, SIGKILL);
    MUST(waitpid(child, NULL, __WALL) == child);
    return where;
died:
    fprintf(stderr, "the child ended by itself at unit %ld\n", unit);
    _exit(93);
}

// The i-th of `kills` targets, in turn before, in and after the driver, and now and then between calls: the parts of a path
// are of very different lengths. In each part they are spread evenly, and by chance around that.
__attribute__((unused)) static long target_of(const struct units *units, long i, long kills, unsigned *seed) {
    enum where part = i % 16 == 15 ? OUTSIDE : (enum where)(i % 3);
    long length = 0, at = 0;
    for (long unit = 0; unit < units->count; unit++) length += units->where[unit] == part;
    if (!length) return units->count * i / kills;
    long wanted = (length * i / kills + rand_r(seed) % (length / kills + 1)) % length;
    for (; units->where[at] != part || wanted-- > 0; at++) {
    }
    return at;
}

// For paths of many instructions: kills the child `steps` instructions behind its stop number `stop` at a system call, on
// the way in or out. Counts the stops instead if there are not so many.
__attribute__((unused)) static enum where kill_near(pid_t child, long stop, long steps, long *stops) {
    long count = 0;
    int status;
    MUST(next_stop(child));
    MUST(!ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(intptr_t)PTRACE_O_TRACESYSGOOD));
    for (long signal = 0;;) {
        MUST(!ptrace(PTRACE_SYSCALL, child, NULL, (void *)signal));
        MUST(waitpid(child, &status, __WALL) == child);
        if (!WIFSTOPPED(status)) {
            *stops = count;
            return OUTSIDE;
        }
        int call = WSTOPSIG(status) == (SIGTRAP | 0x80);
        signal = call ? 0 : WSTOPSIG(status);
        if (call && count++ == stop) break;
    }
    int alive = 1;
    for (; steps > 0 && alive; steps--) alive = step(child);
    uintptr_t at = alive ? registers(child).rip : 0;
    kill(child, SIGKILL);
    if (alive) MUST(waitpid(child, NULL, __WALL) == child);
    return lies_in(shim_code, at) ? BEFORE : lies_in(driver_code, at) ? INSIDE : OUTSIDE;
}

#endif
