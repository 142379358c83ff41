/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a command's requests go, by the address that it was given: what comes over the wire first.
 */
#include "clients/http/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"

enum { TLS_HANDSHAKE = 22 };

/* Takes one connection, keeps what comes first, and hangs up. */
struct taker {
    pthread_t thread;
    int fd, port;
    char said[256];
};

static void *take(void *arg)
{
    struct taker *t = arg;
    int fd = accept(t->fd, NULL, NULL);
    ssize_t n = recv(fd, t->said, sizeof t->said - 1, 0);
    t->said[n > 0 ? n : 0] = 0;
    close(fd);
    return NULL;
}

static void begin(struct taker *t)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(t->fd, (struct sockaddr *)&in, len), 0);
    assert_int_equal(listen(t->fd, 1), 0);
    assert_int_equal(getsockname(t->fd, (struct sockaddr *)&in, &len), 0);
    t->port = ntohs(in.sin_port);
    assert_int_equal(pthread_create(&t->thread, NULL, take, t), 0);
}

/* What a request for /v1/models comes to, by an address of these words before and behind the port.
 */
static void ask(const char *before, const char *behind, struct taker *t)
{
    char url[128];
    struct err e = ERR_INIT;
    begin(t);
    snprintf(url, sizeof url, "%s127.0.0.1:%d%s", before, t->port, behind);
    struct peer *p = peer_new(url, NULL, &e);
    assert_good(p ? 0 : -1, &e);
    assert_string_equal(peer_url(p), url);
    assert_int_not_equal(peer_ask(p, "GET", "/v1/models", NULL, NULL, &e), 0); /* it hangs up */
    assert_int_equal(peer_status(p), 0);
    pthread_join(t->thread, NULL);
    close(t->fd);
    peer_free(p);
}

/* Faults: a base or a closing /v1 that is lost, or there twice. */
static void paths_go_behind_the_base(void **state)
{
    static const struct {
        const char *before, *behind, *first;
    } row[] = {
        {"http://", "", "GET /v1/models HTTP/1.1\r\n"},
        {"", "//", "GET /v1/models HTTP/1.1\r\n"},
        {"http://", "/v1/", "GET /v1/models HTTP/1.1\r\n"},
        {"http://", "/in/here//v1", "GET /in/here/v1/models HTTP/1.1\r\n"},
        {"http://", "/v2", "GET /v2/v1/models HTTP/1.1\r\n"},
    };
    struct taker t;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        ask(row[i].before, row[i].behind, &t);
        assert_int_equal(strncmp(t.said, row[i].first, strlen(row[i].first)), 0);
    }
}

/* Fault: what was to be said in secret goes out in the clear. */
static void https_speaks_tls(void **state)
{
    struct taker t;
    (void)state;
    ask("https://", "", &t);
    assert_int_equal(t.said[0], TLS_HANDSHAKE);
}

/* Fault: an address that is none is tried, or refused without the reason. */
static void what_is_no_address_is_refused(void **state)
{
    static const struct {
        const char *url, *key, *words;
    } row[] = {
        {"unix:", NULL, "no path behind unix:"}, {"ftp://host", NULL, "it begins with http://"},
        {"http:///v1", NULL, "no host in it"},   {":80", NULL, "no host in it"},
        {"a host", NULL, "the address has"},     {"host", "a\nkey", "the key has"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = ERR_INIT;
        struct peer *p = peer_new(row[i].url, row[i].key, &e);
        assert_err(p ? 0 : -1, &e, ERR_BAD_INPUT, row[i].words);
        peer_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_go_behind_the_base),
        cmocka_unit_test(https_speaks_tls),
        cmocka_unit_test(what_is_no_address_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
