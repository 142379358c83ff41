/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch alone, over pairs of sockets that nobody reads: what it does while the HTTP thread that
 * a connection belongs to is busy elsewhere.
 */
#include "server/http/conn.h"

#include <poll.h>
#include <sys/socket.h>
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
    p->watch = watch_new(4, (struct watch_times){.idle_us = LONG_US, .headers_us = LONG_US}, &e);
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

static void until_set(const _Atomic bool *flag)
{
    int64_t end = clock_us() + LONG_US;
    while (!atomic_load(flag) && clock_us() < end)
        usleep(1000);
    assert_true(atomic_load(flag));
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
    static const enum conn_phase phases[] = {CONN_HEADERS, CONN_BODY, CONN_IDLE};
    (void)state;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        struct pair p;
        pair_init(&p);
        assert_true(conn_enter(p.conn, phases[i], 0));
        shutdown(p.client, SHUT_WR);
        until_set(&p.conn->has_ended);
        int64_t before = cpu_us();
        usleep(LOOK_US);
        assert_true(cpu_us() - before < LOOK_US / 4);
        pair_release(&p);
    }
}

/* Who only ends its side is taken as gone; who then goes is not seen to. */
static void test_an_end_is_not_leaving(void **state)
{
    struct pair p;
    (void)state;
    pair_init(&p);
    assert_true(conn_enter(p.conn, CONN_WAIT, 0));
    shutdown(p.client, SHUT_WR);
    until_set(&p.conn->has_ended);
    usleep(LOOK_US);
    assert_false(atomic_load(&p.conn->is_gone));
    close(p.client);
    until_set(&p.conn->is_gone);
    conn_close(p.conn);
    close(p.server);
    watch_free(p.watch);
}

static bool is_cut(const struct pair *p)
{
    char byte;
    return recv(p->client, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0; /* 408, or the end */
}

static void until_cut(const struct pair *p)
{
    for (int64_t end = clock_us() + LONG_US; !is_cut(p) && clock_us() < end;)
        usleep(1000);
    assert_true(is_cut(p));
}

enum { SPARED_US = 4 * 1000 * 1000, TRIES = 20 };

/* A client that is told that it was too slow, though what it sent lies here unread; one that is
 * waited for though nothing of it is there any more. */
static void test_waits_for_what_came(void **state)
{
    static const enum conn_phase phases[] = {CONN_HEADERS, CONN_BODY, CONN_IDLE};
    (void)state;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        bool is = true;
        char byte = 'x';
        for (int k = 0; k < TRIES && is; k++) {
            struct pair p;
            pair_init(&p);
            int64_t begin = clock_us();
            assert_int_equal(send(p.client, &byte, 1, 0), 1);
            assert_true(conn_enter(p.conn, phases[i], begin));
            usleep(5 * LOOK_US);
            is = is_cut(&p);
            assert_true(!is || clock_us() - begin > SPARED_US);
            (void)!recv(p.server, &byte, 1, MSG_DONTWAIT);
            until_cut(&p);
            pair_release(&p);
        }
        assert_false(is);
    }
}

/* A client that stays for ever by never being without bytes on their way. */
static void test_waits_not_for_ever(void **state)
{
    struct pair p;
    (void)state;
    pair_init(&p);
    assert_int_equal(send(p.client, "x", 1, 0), 1);
    assert_true(conn_enter(p.conn, CONN_HEADERS, clock_us()));
    until_cut(&p);
    pair_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shows_the_end_calmly),
        cmocka_unit_test(test_an_end_is_not_leaving),
        cmocka_unit_test(test_waits_for_what_came),
        cmocka_unit_test(test_waits_not_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
