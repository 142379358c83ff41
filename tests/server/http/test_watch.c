/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch alone, over pairs of sockets that nobody reads: what it does while the HTTP thread that
 * a connection belongs to is busy elsewhere.
 */
#include "server/http/conn.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/lib/test.h"

enum { LOOK_US = 200 * 1000, LONG_US = 60 * 1000 * 1000 };

struct pair {
    struct watch *watch;
    struct conn *conn;
    int server, client;
};

static void pair_init(struct pair *p)
{
    struct err e = ERR_INIT;
    int fd[2];
    p->watch = watch_new(4, (struct watch_times){.idle_us = LONG_US, .head_us = LONG_US}, &e);
    assert_non_null(p->watch);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    p->server = fd[0];
    p->client = fd[1];
    p->conn = conn_open(p->watch, NULL, p->server);
    assert_non_null(p->conn);
}

static void pair_release(struct pair *p)
{
    conn_close(p->conn);
    close(p->server);
    close(p->client);
    watch_free(p->watch);
}

static void until_gone(const struct conn *n)
{
    int64_t end = clock_us() + LONG_US;
    while (!atomic_load(&n->is_gone) && clock_us() < end)
        usleep(1000);
    assert_true(atomic_load(&n->is_gone));
}

static int64_t cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* A watch that wakes itself by what it does, and holds its lock against those who would close: an
 * end that the HTTP thread has not seen yet is shown again and again, but not without a pause. */
static void test_shows_the_end_calmly(void **state)
{
    static const enum conn_phase phases[] = {CONN_HEAD, CONN_BODY, CONN_IDLE};
    (void)state;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        struct pair p;
        pair_init(&p);
        assert_true(conn_enter(p.conn, phases[i], 0));
        shutdown(p.client, SHUT_WR);
        until_gone(p.conn);
        int64_t before = cpu_us();
        usleep(LOOK_US);
        assert_true(cpu_us() - before < LOOK_US / 4);
        pair_release(&p);
    }
}

static bool is_cut(const struct pair *p)
{
    char byte;
    return recv(p->client, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0; /* 408, or the end */
}

/* A client that is told that it was too slow, though what it sent lies here unread. */
static void test_waits_for_what_came(void **state)
{
    char byte = 'x';
    struct pair p;
    (void)state;
    pair_init(&p);
    assert_int_equal(send(p.client, &byte, 1, 0), 1);
    assert_true(conn_enter(p.conn, CONN_HEAD, clock_us()));
    usleep(4 * LOOK_US);
    assert_false(is_cut(&p));
    assert_int_equal(recv(p.server, &byte, 1, 0), 1);
    for (int64_t end = clock_us() + LONG_US; !is_cut(&p) && clock_us() < end;)
        usleep(1000);
    assert_true(is_cut(&p));
    pair_release(&p);
}

enum { DUE_US = 1500 * 1000, STOP_US = 2500 * 1000, GOOD = 0, BAD = 1, UNKNOWN = 2 };

/* In a process that is stopped for STOP_US: whether its connection is cut then. Who stood still
 * again behind that knows nothing. */
static int is_cut_by_a_stop(int ready)
{
    struct pair p;
    pair_init(&p);
    int64_t begin = clock_us(), last = begin, now = begin;
    if (!conn_enter(p.conn, CONN_HEAD, begin + DUE_US) || write(ready, "x", 1) != 1)
        return BAD;
    for (; now - last < STOP_US / 2 && now - begin < LONG_US; now = clock_us()) {
        last = now;
        usleep(1000);
    }
    usleep(3 * LOOK_US / 2);
    bool is = is_cut(&p);
    return clock_us() - begin > STOP_US + DUE_US / 2 ? UNKNOWN : is ? BAD : GOOD;
}

/* A process that was stopped, or had no CPU, and takes that for its clients' slowness. */
static void test_standing_still_is_nobodys_time(void **state)
{
    int end = UNKNOWN;
    (void)state;
    for (int i = 0; i < 20 && end == UNKNOWN; i++) {
        int ready[2], status;
        char byte;
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(is_cut_by_a_stop(ready[1]));
        assert_int_equal(read(ready[0], &byte, 1), 1);
        kill(child, SIGSTOP);
        usleep(STOP_US);
        kill(child, SIGCONT);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        end = WEXITSTATUS(status);
        close(ready[0]);
        close(ready[1]);
    }
    assert_int_not_equal(end, BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shows_the_end_calmly),
        cmocka_unit_test(test_waits_for_what_came),
        cmocka_unit_test(test_standing_still_is_nobodys_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
