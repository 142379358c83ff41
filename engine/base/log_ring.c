/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer never writes what would block: it waits in poll for room, and a pipe that has room has
 * it for PIPE_BUF bytes, so pieces are no longer. Standard error stays as it came: others have it
 * too, and would see a flag that is set on it.
 */
#include "engine/base/log_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"

enum { PIECE_BYTES = 4096, FLUSH_US = 2 * 1000 * 1000, LOOK_MS = 100 };

/* One for the process: the log is. */
static struct ring {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    char *at; /* owned: [LOG_RING_BYTES] */
    size_t head, n;
    uint64_t dropped, told; /* lines; of these, said in the log */
    char *path;             /* owned; NULL: standard error */
    int fd;                 /* the writer's */
    int stop_fd;            /* owned: readable once all stops */
    bool runs, stops, reopens;
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .fd = STDERR_FILENO};

static int open_log(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

static void put(const char *p, size_t n)
{
    size_t at = (ring.head + ring.n) % LOG_RING_BYTES, most = LOG_RING_BYTES - at;
    memcpy(ring.at + at, p, n < most ? n : most);
    if (n > most)
        memcpy(ring.at, p + most, n - most);
    ring.n += n;
}

/* Without a writer: what would block is dropped. */
static void write_now(const char *line, size_t n)
{
    struct pollfd p = {.fd = ring.fd, .events = POLLOUT};
    ssize_t done = -1;
    if (n <= PIECE_BYTES && poll(&p, 1, 0) == 1)
        done = write(ring.fd, line, n);
    ring.dropped += done < 0;
}

static void take_line(void *ctx, const char *line, size_t n)
{
    (void)ctx;
    pthread_mutex_lock(&ring.lock);
    if (!ring.runs)
        write_now(line, n);
    else if (ring.n + n > LOG_RING_BYTES)
        ring.dropped++;
    else
        put(line, n);
    if (ring.n)
        pthread_cond_signal(&ring.wake);
    pthread_mutex_unlock(&ring.lock);
}

/* ---- the writer ----------------------------------------------------------------------------- */

/* False: time is over. What can never be written (a full disk) is gone, as lines that were dropped
 * are: the log holds up nobody. */
static bool write_piece(const char *p, size_t n, int64_t *until_us)
{
    while (n > 0) {
        struct pollfd fds[2] = {{.fd = ring.fd, .events = POLLOUT},
                                {.fd = *until_us ? -1 : ring.stop_fd, .events = POLLIN}};
        int rc = poll(fds, 2, LOOK_MS);
        if (fds[1].revents && !*until_us)
            *until_us = clock_us() + FLUSH_US;
        if (rc > 0 && fds[0].revents) {
            ssize_t done = write(ring.fd, p, n);
            if (done < 0 && errno != EINTR && errno != EAGAIN)
                return true;
            p += done > 0 ? done : 0;
            n -= done > 0 ? (size_t)done : 0;
        }
        if (n > 0 && *until_us && clock_us() > *until_us)
            return false;
    }
    return true;
}

/* What stands at the head, up to the end of its last whole line where it has one. */
static size_t take_piece(char piece[PIECE_BYTES])
{
    size_t n = ring.n < PIECE_BYTES ? ring.n : PIECE_BYTES, most = LOG_RING_BYTES - ring.head;
    memcpy(piece, ring.at + ring.head, n < most ? n : most);
    if (n > most)
        memcpy(piece + most, ring.at, n - most);
    const char *end = memrchr(piece, '\n', n);
    n = end ? (size_t)(end - piece) + 1 : n;
    ring.head = (ring.head + n) % LOG_RING_BYTES;
    ring.n -= n;
    return n;
}

static void reopen(void)
{
    int fd = open_log(ring.path);
    if (fd < 0) {
        struct err e = ERR_INIT;
        err_sys(&e, "opening %s", ring.path);
        log_event(LOG_ERROR, "the log file cannot be opened again", LOG_TEXT("why", e.msg));
        return;
    }
    pthread_mutex_lock(&ring.lock);
    int old = ring.fd;
    ring.fd = fd;
    pthread_mutex_unlock(&ring.lock);
    close(old);
}

/* Said once there is room for the line that says it. */
static uint64_t untold(void)
{
    pthread_mutex_lock(&ring.lock);
    bool has_room = ring.n + LOG_LINE_BYTES <= LOG_RING_BYTES;
    uint64_t n = has_room ? ring.dropped - ring.told : 0;
    ring.told += n;
    pthread_mutex_unlock(&ring.lock);
    return n;
}

/* Waits for a piece; 0: it is over. */
static size_t next_piece(char piece[PIECE_BYTES], bool *reopens)
{
    pthread_mutex_lock(&ring.lock);
    while (!ring.n && !ring.stops && !ring.reopens)
        pthread_cond_wait(&ring.wake, &ring.lock);
    *reopens = ring.reopens;
    ring.reopens = false;
    size_t n = ring.n && !*reopens ? take_piece(piece) : 0;
    pthread_mutex_unlock(&ring.lock);
    return n;
}

static void *write_all(void *arg)
{
    char piece[PIECE_BYTES];
    int64_t until_us = 0;
    bool reopens;
    (void)arg;
    for (;;) {
        size_t n = next_piece(piece, &reopens);
        if (reopens)
            reopen();
        else if (!n || !write_piece(piece, n, &until_us))
            return NULL;
        uint64_t lost = untold();
        if (lost)
            log_event(LOG_WARN, "lines of the log are lost: nobody took them",
                      LOG_INT("lines", (int64_t)lost));
    }
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static int start_thread(void)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&ring.thread, NULL, write_all, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

int log_ring_start(enum log_level least, enum log_format format, const char *path, struct err *e)
{
    if (!ring.runs) {
        int fd = path ? open_log(path) : STDERR_FILENO;
        if (fd < 0)
            return err_sys(e, "opening the log %s", path);
        ring.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (ring.stop_fd < 0)
            return err_sys(e, "making an eventfd");
        if (ring.fd != STDERR_FILENO)
            close(ring.fd);
        ring.fd = fd;
        ring.path = path ? xstrdup(path) : NULL;
        ring.at = xmalloc(LOG_RING_BYTES);
        ring.head = ring.n = 0;
        ring.stops = ring.reopens = false;
        ring.runs = true;
        int rc = start_thread();
        if (rc) {
            errno = rc;
            ring.runs = false;
            return err_sys(e, "starting the log's thread");
        }
    }
    log_configure(least, format, take_line, NULL);
    return 0;
}

void log_ring_stop(void)
{
    uint64_t one = 1;
    if (!ring.runs)
        return;
    pthread_mutex_lock(&ring.lock);
    ring.stops = true;
    (void)!write(ring.stop_fd, &one, sizeof one);
    pthread_cond_signal(&ring.wake);
    pthread_mutex_unlock(&ring.lock);
    pthread_join(ring.thread, NULL);
    pthread_mutex_lock(&ring.lock);
    ring.runs = false;
    ring.n = 0;
    free(ring.at);
    ring.at = NULL;
    close(ring.stop_fd);
    free(ring.path);
    ring.path = NULL;
    pthread_mutex_unlock(&ring.lock);
}

void log_ring_reopen(void)
{
    pthread_mutex_lock(&ring.lock);
    ring.reopens = ring.runs && ring.path;
    pthread_cond_signal(&ring.wake);
    pthread_mutex_unlock(&ring.lock);
}

uint64_t log_ring_dropped(void)
{
    pthread_mutex_lock(&ring.lock);
    uint64_t n = ring.dropped;
    pthread_mutex_unlock(&ring.lock);
    return n;
}
