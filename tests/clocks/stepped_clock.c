/* A wall clock that a test turns, for a process that is started with LD_PRELOAD: CLOCK_REALTIME stands as far from the
 * machine's as the file that STEPPED_CLOCK names says, at once. The file has two 64-bit numbers: nanoseconds to add,
 * and what adjtimex answers (0: the kernel keeps time; 5: it does not). Every other clock is the machine's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define NANOSECONDS_A_SECOND 1000000000LL

static volatile int64_t *turned;

__attribute__((constructor)) static void find_the_file(void) {
    const char *path = getenv("STEPPED_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) {
        _exit(97); /* a clock that does not turn would let every test pass */
    }
    close(file);
    turned = map;
}

int clock_gettime(clockid_t clock, struct timespec *into) {
    if (syscall(SYS_clock_gettime, clock, into) != 0) {
        return -1;
    }
    if (turned != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t whole = (int64_t)into->tv_sec * NANOSECONDS_A_SECOND + into->tv_nsec + turned[0];
        into->tv_sec = whole / NANOSECONDS_A_SECOND;
        into->tv_nsec = whole % NANOSECONDS_A_SECOND;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict into, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return -1;
    }
    into->tv_sec = now.tv_sec;
    into->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return (time_t)-1;
    }
    if (into != NULL) {
        *into = now.tv_sec;
    }
    return now.tv_sec;
}

int adjtimex(struct timex *status) {
    if (status->modes != 0) {
        errno = EPERM;
        return -1;
    }
    return (int)turned[1];
}
