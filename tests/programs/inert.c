// A program that makes no CUDA call prints everything about itself that a preloaded library might
// have changed. Run bare and preloaded, it must print the same.
// link: -ldl
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void *nothing(void *argument) { return argument; }

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void descriptors(void) {
    for (int i = 0; i < 256; i++) {
        char path[64], target[4096];
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = 0;
        // The tester's own files for our output have names of their own in each run.
        printf("fd %d%s%s\n", i, i > 2 ? " " : "", i > 2 ? target : "");
    }
}

static void threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
    closedir(tasks);
    printf("threads %d\n", count);
}

static void status(void) {
    char line[4096];
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) {
        for (const char **key = (const char *[]){"Umask", "Sig", "Shd", "Seccomp", "NoNewPrivs", "Cap", "Threads", NULL}; *key; key++)
            if (!strncmp(line, *key, strlen(*key)) && strncmp(line, "SigQ", 4)) fputs(line, stdout);
    }
    fclose(file);
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (!sigaction(i, NULL, &action) && action.sa_handler != SIG_DFL) printf("signal %d is handled\n", i);
    }
}

// Files in memory, each once, the preloaded library left out.
static void maps(void) {
    char line[8192], last[8192] = "";
    FILE *file = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, file)) {
        char *path = strchr(line, '/');
        if (!path || strstr(path, "libquota_shim") || !strcmp(path, last)) continue;
        strcpy(last, path);
        printf("mapped %s", path);
    }
    fclose(file);
}

static void variables(void) {
    int count = 0;
    while (environ[count]) count++;
    char **sorted = malloc(sizeof *sorted * (size_t)count);
    memcpy(sorted, environ, sizeof *sorted * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    for (int i = 0; i < count; i++)
        if (strncmp(sorted[i], "LD_PRELOAD=", 11)) printf("env %s\n", sorted[i]);
    free(sorted);
}

int main(void) {
    char directory[4096];
    pthread_t thread;
    // Threads and heap in use, as in a real program: libraries that hook them would show.
    if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL)) return 1;
    descriptors();
    threads();
    status();
    maps();
    variables();
    printf("directory %s\n", getcwd(directory, sizeof directory));
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        getrlimit(i, &limit);
        printf("rlimit %d %lu %lu\n", i, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    }
    printf("next descriptor %d\n", dup(0));
    return 0;
}
