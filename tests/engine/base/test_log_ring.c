/* SPDX-License-Identifier: Apache-2.0
 *
 * The log's ring: a pipe that nobody reads holds up nobody, nothing is lost without a word, and a
 * file that is turned away is opened again.
 */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log_ring.h"
#include "engine/base/mem.h"

static char *read_all(const char *path)
{
    static char text[4 << 20];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    return text;
}

static int lines_with(const char *text, const char *words)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, words)); p++)
        n++;
    return n;
}

/* Fault: lines that are lost, doubled, cut or out of order on their way to a file. */
static void all_lines_in_order(void **state)
{
    struct err e = ERR_INIT;
    char *dir = test_dir_new(), path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/log", dir);
    assert_good(log_ring_start(LOG_INFO, LOG_AS_TEXT, path, &e), &e);
    for (int i = 0; i < 5000; i++)
        log_event(LOG_INFO, "counted", LOG_INT("i", i));
    log_event(LOG_DEBUG, "counted not", LOG_INT("i", 0));
    log_ring_stop();
    const char *p = read_all(path);
    for (int i = 0; i < 5000; i++) {
        char words[64];
        snprintf(words, sizeof words, "info  counted i=%d\n", i);
        p = strstr(p, words);
        assert_non_null(p);
    }
    assert_int_equal(lines_with(read_all(path), "counted"), 5000);
    test_dir_free(dir);
}

/* Each line is whole, and stands behind those that were said before it. */
static void assert_in_order(const char *text, int n_line)
{
    static const char words[] = " unread i=";
    int last = -1, i;
    for (const char *p = text; (p = strstr(p, words)); n_line--) {
        p += sizeof words - 1;
        char *end;
        i = (int)strtol(p, &end, 10);
        assert_true(i > last && *end == '\n');
        last = i;
    }
    assert_int_equal(n_line, 0);
}

/* Faults: who logs waits for whoever should read the log; lines that are missing without a word,
 * or doubled and cut where the pipe took a part of what was written. */
static void an_unread_pipe_holds_up_nobody(void **state)
{
    enum { LINES = 40000 };
    struct err e = ERR_INIT;
    int ends[2];
    char path[64], *text = xcalloc(16, 1 << 20);
    size_t n = 0;
    uint64_t before = log_ring_dropped();
    (void)state;
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_good(log_ring_start(LOG_INFO, LOG_AS_TEXT, path, &e), &e);
    for (int i = 0; i < LINES; i++) /* more than pipe and ring hold: returns at all */
        log_event(LOG_INFO, "unread", LOG_INT("i", i));
    uint64_t lost = log_ring_dropped() - before;
    assert_in_range(lost, 1, LINES);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    while (!(n > 64 && strstr(text + (n > 200 ? n - 200 : 0), "are lost"))) {
        ssize_t got = read(ends[0], text + n, 65536);
        n += got > 0 ? (size_t)got : 0;
        text[n] = 0;
        if (got < 0)
            usleep(1000);
    }
    int held = lines_with(text, " unread ");
    char words[64];
    snprintf(words, sizeof words, "lines=%llu\n", (unsigned long long)lost);
    assert_non_null(strstr(text, words));
    assert_int_equal(held + (int)lost, LINES);
    assert_in_order(text, held);
    log_ring_stop();
    close(ends[0]), close(ends[1]);
    free(text);
}

/* ends[1] takes a few thousand bytes, and no call waits. */
static void connection(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int least = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(door, (struct sockaddr *)&at, n), 0);
    assert_int_equal(setsockopt(door, SOL_SOCKET, SO_RCVBUF, &least, sizeof least), 0);
    assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&at, &n), 0);
    assert_int_equal(connect(ends[1], (struct sockaddr *)&at, n), 0);
    ends[0] = accept(door, NULL, NULL);
    assert_true(ends[0] >= 0);
    close(door);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fcntl(ends[i], F_SETFL, O_NONBLOCK), 0);
}

/* Fault: lines that are doubled or cut where a write took less than it was given. */
static void a_socket_that_takes_a_part(void **state)
{
    enum { LINES = 600 };
    static char text[1 << 20];
    struct err e = ERR_INIT;
    int ends[2], kept = dup(STDERR_FILENO);
    size_t n = 0;
    (void)state;
    connection(ends);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    assert_good(log_ring_start(LOG_INFO, LOG_AS_TEXT, NULL, &e), &e);
    for (int i = 0; i < LINES; i++)
        log_event(LOG_INFO, "unread", LOG_INT("i", i));
    while (!strstr(text + (n > 64 ? n - 64 : 0), "i=599\n")) {
        struct pollfd p = {.fd = ends[0], .events = POLLIN};
        assert_int_equal(poll(&p, 1, -1), 1);
        ssize_t got = read(ends[0], text + n, 1000);
        assert_true(got > 0 && n + (size_t)got < sizeof text);
        n += (size_t)got;
    }
    log_ring_stop();
    dup2(kept, STDERR_FILENO);
    assert_in_order(text, LINES);
    close(kept), close(ends[0]), close(ends[1]);
}

/* Fault: an end of the process that waits for a reader. */
static void an_unread_pipe_holds_up_no_end(void **state)
{
    struct err e = ERR_INIT;
    int ends[2];
    char path[64];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_good(log_ring_start(LOG_INFO, LOG_AS_TEXT, path, &e), &e);
    for (int i = 0; i < 5000; i++)
        log_event(LOG_INFO, "unread", LOG_INT("i", i));
    log_ring_stop(); /* returns at all */
    close(ends[0]), close(ends[1]);
}

static void wait_for(const char *path, const char *words)
{
    while (!strstr(read_all(path), words))
        usleep(1000);
}

/* Fault: a log that goes on into the file that was turned away, or stops when it cannot be opened
 * anew. */
static void a_file_is_opened_again(void **state)
{
    struct err e = ERR_INIT;
    char *dir = test_dir_new(), path[512], old[512];
    (void)state;
    snprintf(path, sizeof path, "%s/log", dir);
    snprintf(old, sizeof old, "%s/log.1", dir);
    assert_good(log_ring_start(LOG_INFO, LOG_AS_TEXT, path, &e), &e);
    log_event(LOG_INFO, "one", LOG_INT("i", 1));
    wait_for(path, "one");
    assert_int_equal(rename(path, old), 0);
    log_event(LOG_INFO, "two", LOG_INT("i", 2));
    wait_for(old, "two");
    log_ring_reopen();
    while (access(path, F_OK))
        usleep(1000);
    log_event(LOG_INFO, "three", LOG_INT("i", 3));
    wait_for(path, "three");
    assert_null(strstr(read_all(old), "three"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    log_ring_reopen();
    log_event(LOG_INFO, "four", LOG_INT("i", 4)); /* into the file that has no name any more */
    log_ring_stop();
    test_dir_free(dir);
    assert_int_not_equal(log_ring_start(LOG_INFO, LOG_AS_TEXT, "/none/such/log", &e), 0);
}

/* Faults: the first and the last lines of a process, which no writer takes, that are lost; one that
 * waits for a reader there; one that is lost without being counted. */
static void without_a_writer_lines_are_written_at_once(void **state)
{
    struct err e = ERR_INIT;
    int ends[2];
    char path[64], text[4096] = "";
    (void)state;
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_good(log_ring_start(LOG_INFO, LOG_AS_TEXT, path, &e), &e);
    log_ring_stop();
    uint64_t before = log_ring_dropped();
    log_event(LOG_INFO, "late", LOG_INT("i", 1));
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "late i=1\n"));
    assert_int_equal(log_ring_dropped(), before);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], text, sizeof text) > 0)
        continue;
    log_event(LOG_INFO, "too late", LOG_INT("i", 2)); /* returns at all */
    assert_int_equal(log_ring_dropped(), before + 1);
    close(ends[0]), close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_lines_in_order),
                                       cmocka_unit_test(an_unread_pipe_holds_up_nobody),
                                       cmocka_unit_test(a_socket_that_takes_a_part),
                                       cmocka_unit_test(an_unread_pipe_holds_up_no_end),
                                       cmocka_unit_test(without_a_writer_lines_are_written_at_once),
                                       cmocka_unit_test(a_file_is_opened_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
