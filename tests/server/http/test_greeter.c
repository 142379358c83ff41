/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the door for proxies: who stands in it is sent away, and nothing of it stays open.
 * What it lets in, tests/server/test_proxy_protocol.py asks.
 */
#include "server/http/greeter.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"

static int count_open(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool believes(void *ctx, const char *address)
{
    (void)ctx;
    (void)address;
    return true;
}

/* Faults: a descriptor of the door that stays open, also where it never began; a proxy in the
 * middle of its line that is not told, and waits. */
static void nothing_stays_open(void **state)
{
    const struct greeter_options o = {.is_proxy = believes};
    (void)state;
    int before = count_open();
    for (int starts = 0; starts < 2; starts++) {
        struct err e = ERR_INIT;
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof at;
        char byte;
        int door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int proxy = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(door, (struct sockaddr *)&at, n), 0);
        assert_int_equal(listen(door, 1), 0);
        assert_int_equal(getsockname(door, (struct sockaddr *)&at, &n), 0);
        struct greeter *g = greeter_new(&o, &e);
        assert_non_null(g);
        greeter_listen(g, door);
        if (starts)
            assert_good(greeter_start(g, &e), &e);
        assert_int_equal(connect(proxy, (struct sockaddr *)&at, n), 0);
        assert_int_equal(write(proxy, "PROXY", 5), 5);
        greeter_free(g);
        assert_true(read(proxy, &byte, 1) <= 0);
        close(proxy);
    }
    assert_int_equal(count_open(), before);
    greeter_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_stays_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
