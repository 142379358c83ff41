/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport from inside: what its files share. Only files named http*.c include the library's
 * header; handles are void here.
 *
 * Thread: as http.h.
 */
#ifndef SERVER_HTTP_HTTP_OWN_H
#define SERVER_HTTP_HTTP_OWN_H

#include "engine/base/vec.h"
#include "server/http/call_own.h"
#include "server/http/conn.h"
#include "server/http/http.h"

enum { HTTP_DAEMONS = 4 };

struct http {
    struct http_options o;
    struct watch *watch;        /* owned */
    pthread_mutex_t lock;       /* of unnamed */
    VEC(int) unnamed;           /* sockets that were adopted so, and not begun yet */
    void *daemon[HTTP_DAEMONS]; /* owned: struct MHD_Daemon */
    int n_daemon;
    _Atomic size_t n_call;
    _Atomic int64_t body_bytes; /* of all bodies now */
    _Atomic uint64_t n_id;
    uint64_t id_salt;
};

/* http_call.c: from a request to a call. The types are the library's callbacks'. */
void http_end(struct call *c, bool is_whole);

/* http_reply.c: from an answer to a response. false: close the connection. */
bool http_respond(struct call *c);
bool http_answer_early(struct call *c); /* within the body; false: as above */
bool http_suspend(struct call *c);      /* until the next wake; false: doomed */

/* http_check.c: what is wrong with headers as HTTP; and with what its body is said to be. */
int http_check_headers(struct http_headers *headers, struct api_error *e);
int http_check_body(const struct http_headers *headers, const struct route *r, struct api_error *e);

#endif
