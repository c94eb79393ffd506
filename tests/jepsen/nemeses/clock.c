/* Preloaded into a server: its wall clock is the machine's, set forward or back, or drifting.

   A nemesis writes the file JEPSEN_CLOCK while the server runs: the number of the setting that
   counts, then two settings. It writes the one that does not count, then the number, so that no
   reader sees half a setting. Clocks that only measure (CLOCK_MONOTONIC, ...) stay as they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct setting { int64_t offset_ns, ppm, since_ns; };
struct clock_file { volatile int64_t counts; volatile struct setting settings[2]; };

static struct clock_file *file;

static void __attribute__((constructor)) map_file(void) {
    const char *path = getenv("JEPSEN_CLOCK");
    int fd = path ? open(path, O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, sizeof *file)) _exit(99);
    void *mapped = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) _exit(99);
    close(fd);
    file = mapped;
}

static int64_t shown(int64_t real_ns) {
    if (!file) return real_ns;
    volatile struct setting *now = &file->settings[file->counts & 1];
    return real_ns + now->offset_ns + (real_ns - now->since_ns) / 1000000 * now->ppm;
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    int status = (int)syscall(SYS_clock_gettime, clock, to);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = shown(to->tv_sec * 1000000000LL + to->tv_nsec);
        to->tv_sec = ns / 1000000000LL;
        to->tv_nsec = ns % 1000000000LL;
    }
    return status;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone) {
    struct timespec at;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &at);
    to->tv_sec = at.tv_sec;
    to->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (to) *to = at.tv_sec;
    return at.tv_sec;
}
