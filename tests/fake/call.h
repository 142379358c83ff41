/* SPDX-License-Identifier: Apache-2.0
 *
 * A call without HTTP: everything that server/http/call.h promises, played in memory by the thread
 * of the test, so that handlers run on a real engine and without a socket.
 *
 * Thread: the test's; call_wake, call_ref and call_unref from any.
 */
#ifndef TESTS_FAKE_CALL_H
#define TESTS_FAKE_CALL_H

#include <pthread.h>

#include "engine/engine.h"
#include "server/http/call.h"
#include "server/metrics/metrics.h"

struct background;

struct call {
    struct arena arena;
    struct call_request request;
    struct call_later later;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool is_woken, is_later, is_over, is_stream, is_full;
    int n_ref, status;
    size_t n_send;
    struct buf body;    /* owned: what the client got */
    char type[64];      /* of the body */
    char headers[1024]; /* "name: value\n" each */
    int64_t tok_in, tok_out;
};

/* What the client does. */
struct fake_client {
    bool leaves;       /* when something was sent or, with leave_at 0, at once */
    size_t leave_at;   /* sends */
    bool reads_slowly; /* takes one send, then nothing until the engine has rested */
};

/* What server_engine, server_work, server_metrics and server_adapter_root give from here on. */
void fake_engine(struct engine *g);
void fake_work(struct background *b);
void fake_metrics(struct metrics *m);
void fake_adapter_root(const char *path);

/* Until the call is done; the caller's to free. */
struct call *fake_post(void (*route)(struct call *c), const char *body, struct fake_client client);
struct call *fake_get(void (*route)(struct call *c), const char *param);
void fake_free(struct call *c);

#endif
