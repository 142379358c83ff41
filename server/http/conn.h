/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections as the watch sees them: a slot for each socket, with the phase it is in and the time
 * by which that phase must have ended. libmicrohttpd neither times a suspended connection nor sees
 * its client go, and elsewhere knows only of silence, which a slow sender avoids; so all deadlines
 * are kept here, absolutely, and one thread looks at them.
 *
 *     IDLE -> HEAD -> BODY -> WAIT -> SEND -> IDLE ...
 *
 * The HTTP thread moves a connection from phase to phase; the watch's only move is to DOOMED, by
 * compare-and-swap, after which conn_enter says no and the HTTP thread closes. Slots are never
 * freed while the watch lives, so a late event finds a slot, and by its number not a stranger's.
 *
 * A client that ends its side while its request waits is gone, or still wants its answer: a closed
 * socket looks like one that is shut down for writing until somebody writes to it. So such a client
 * is sent a few bytes that mean nothing (http_call.c), and is gone if its host says so.
 *
 * Within a request, its end means that the rest will never come, and the connection closes as soon
 * as the bytes before the end were read.
 *
 * Thread: the watch has one of its own; conn_open, conn_enter, conn_call, conn_close are called by
 * the HTTP thread that has the connection.
 */
#ifndef SERVER_HTTP_CONN_H
#define SERVER_HTTP_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct call;
struct watch;

enum conn_phase {
    CONN_CLOSED,  /* a free slot */
    CONN_IDLE,    /* between requests */
    CONN_HEADERS, /* a request's first line is there */
    CONN_BODY,
    CONN_WAIT, /* the handler has it */
    CONN_SEND,
    CONN_DOOMED
};

struct conn {
    struct watch *watch; /* borrowed */
    void *mhd;           /* borrowed: the transport's handle */
    int fd;              /* borrowed */
    uint32_t place, generation;
    bool is_local;           /* a unix socket */
    bool is_unnamed;         /* a known proxy did not say whose it is: X-Forwarded-For is hearsay */
    bool is_armed;           /* the watch's epoll has it */
    bool is_dry;             /* the watch's: nothing of it lay unread at the last look */
    int n_spared;            /* the watch's: looks since its phase ought to have ended */
    _Atomic int phase;       /* enum conn_phase */
    _Atomic int64_t due_us;  /* the end of the phase; 0: none */
    _Atomic int64_t ping_us; /* when silence is to be broken; 0: never */
    _Atomic bool has_ended;  /* the client sends no more */
    _Atomic bool is_gone;    /* the client went */
    pthread_mutex_t lock;    /* of call */
    struct call *call;       /* borrowed: what is being answered; NULL */
    struct conn *next;       /* free slots */
};

struct watch_times {
    int64_t idle_us, headers_us;
};

struct watch *watch_new(size_t max_conn, struct watch_times times, struct err *e);
void watch_free(struct watch *w); /* all connections are closed */
void watch_cut(struct watch *w);  /* as if every client went now */
size_t watch_count(struct watch *w);

struct conn *conn_open(struct watch *w, void *mhd, int fd); /* NULL: no slot */
void conn_close(struct conn *n);
void conn_begin(struct conn *n); /* the first line of a request was read */

/* false: the connection is doomed. due_us is absolute; 0: none. */
bool conn_enter(struct conn *n, enum conn_phase phase, int64_t due_us);
void conn_call(struct conn *n, struct call *c); /* NULL: none any more */

#endif
