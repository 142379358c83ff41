/* SPDX-License-Identifier: Apache-2.0
 *
 * A run whose collector is slow: it answers when the test says so, and meanwhile a job goes on with
 * its run and ends. Catches: lines and an end that are lost since an older end was just being told.
 */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "server/wandb/wandb.h"

enum { ASKED_MAX = 8, BODY_BYTES = 16 << 10, PATIENCE_S = 120 };

/* What was asked, in its order, and how much of it may be answered. */
struct collector {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    char asked[ASKED_MAX][BODY_BYTES];
    int n_asked, n_may;
    bool stops;
};

static const char run_is[] = "{\"data\":{\"upsertBucket\":{\"bucket\":{\"historyLineCount\":0,"
                             "\"project\":{\"name\":\"p\",\"entity\":{\"name\":\"e\"}}}}}}";

/* A request's headers and body, whole. */
static bool read_request(int fd, char *to)
{
    size_t n = 0, want = BODY_BYTES;
    while (n < want) {
        ssize_t got = recv(fd, to + n, BODY_BYTES - 1 - n, 0);
        if (got <= 0)
            return false;
        n += (size_t)got;
        to[n] = 0;
        const char *end = strstr(to, "\r\n\r\n"), *length = strcasestr(to, "content-length:");
        if (end && length)
            want = (size_t)(end + 4 - to) + strtoul(length + 15, NULL, 10);
    }
    return true;
}

static void answer(struct collector *c, int fd)
{
    char text[BODY_BYTES], said[512];
    if (!read_request(fd, text))
        return;
    pthread_mutex_lock(&c->lock);
    int i = c->n_asked++;
    memcpy(c->asked[i % ASKED_MAX], text, sizeof text);
    pthread_cond_broadcast(&c->moved);
    while (c->n_may <= i && !c->stops)
        pthread_cond_wait(&c->moved, &c->lock);
    pthread_mutex_unlock(&c->lock);
    int n = snprintf(said, sizeof said, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                     sizeof run_is - 1, run_is);
    (void)!send(fd, said, (size_t)n, MSG_NOSIGNAL);
}

static void *collect(void *of)
{
    struct collector *c = of;
    for (int fd; (fd = accept(c->fd, NULL, NULL)) >= 0; close(fd))
        answer(c, fd);
    return NULL;
}

static int begin(struct collector *c)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    *c = (struct collector){.fd = socket(AF_INET, SOCK_STREAM, 0)};
    pthread_mutex_init(&c->lock, NULL);
    clock_cond_init(&c->moved);
    assert_true(c->fd >= 0 && !bind(c->fd, (struct sockaddr *)&at, n) && !listen(c->fd, 4));
    assert_false(getsockname(c->fd, (struct sockaddr *)&at, &n));
    assert_int_equal(pthread_create(&c->thread, NULL, collect, c), 0);
    return ntohs(at.sin_port);
}

static void end(struct collector *c)
{
    pthread_mutex_lock(&c->lock);
    c->stops = true;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    shutdown(c->fd, SHUT_RDWR);
    pthread_join(c->thread, NULL);
    close(c->fd);
    pthread_cond_destroy(&c->moved);
    pthread_mutex_destroy(&c->lock);
}

static void let(struct collector *c, int n)
{
    pthread_mutex_lock(&c->lock);
    c->n_may = n;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
}

static void await_asked(struct collector *c, int n)
{
    int64_t until_ns = clock_ns() + PATIENCE_S * INT64_C(1000000000);
    bool in_time = true;
    pthread_mutex_lock(&c->lock);
    while (c->n_asked < n && in_time)
        in_time = clock_cond_wait(&c->moved, &c->lock, until_ns);
    bool came = c->n_asked >= n;
    pthread_mutex_unlock(&c->lock);
    assert_true(came);
}

static void a_run_that_goes_on_while_its_end_is_told(void **state)
{
    static struct collector c;
    char url[64];
    struct err e = ERR_INIT;
    (void)state;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", begin(&c));
    setenv("WANDB_API_KEY", "key", 1);
    struct wandb *w = wandb_new(&(struct wandb_options){.project = "p", .url = url}, &e);
    assert_good(w ? 0 : -1, &e);
    struct wandb_run *r = wandb_open(w, "job", "job", "{}");
    wandb_add(r, 1, "{\"train_loss\":1}");
    wandb_close(r, WANDB_HALTED);
    let(&c, 1); /* the run is made; that it halts is asked and not answered */
    await_asked(&c, 2);
    assert_non_null(strstr(c.asked[1], "\\\"_step\\\":1"));
    assert_null(strstr(c.asked[1], "complete"));
    assert_ptr_equal(wandb_open(w, "job", "job", "{}"), r);
    wandb_add(r, 2, "{\"train_loss\":2}");
    wandb_close(r, WANDB_FAILED);
    let(&c, 2);
    await_asked(&c, 3);
    assert_non_null(strstr(c.asked[2], "\\\"_step\\\":2"));
    assert_non_null(strstr(c.asked[2], "\"complete\":true"));
    assert_non_null(strstr(c.asked[2], "\"exitcode\":1"));
    let(&c, ASKED_MAX);
    wandb_free(w);
    assert_int_equal(c.n_asked, 3);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_that_goes_on_while_its_end_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
