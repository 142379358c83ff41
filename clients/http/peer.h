/* SPDX-License-Identifier: Apache-2.0
 *
 * The server that a command speaks to: where it listens, the key it is told, and a connection that
 * is kept from one request to the next. libcurl carries the bytes (http and https, a proxy where
 * the environment names one, Unix sockets); what a request means stands here.
 *
 * An address is http://HOST[:PORT][/BASE], https://..., HOST[:PORT], or unix:PATH for a server's
 * socket. A closing /v1, as OpenAI's clients have it, may be there or not: paths below begin with
 * "/v1/".
 *
 * A request waits until its answer is there. While it does, four times a second and after each
 * signal, `tick` is asked whether it should be given up.
 *
 * Faults are told in the server's own words where it had any. ERR_BAD_INPUT, ERR_NOT_FOUND and
 * ERR_TOO_LARGE are answers below 500, ERR_BUSY is one that says to come back, ERR_IO is a server
 * that cannot be reached or understood.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_HTTP_PEER_H
#define CLIENTS_HTTP_PEER_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "clients/http/sse.h"

struct peer;

/* api_key: NULL: none is sent. */
struct peer *peer_new(const char *url, const char *api_key, struct err *e);
void peer_free(struct peer *p);
const char *peer_url(const struct peer *p);

/* True gives up; NULL: never. */
typedef bool peer_tick_fn(void *ctx);
void peer_set_tick(struct peer *p, peer_tick_fn *tick, void *ctx);

/* The status of the last answer; 0 where none came. */
int peer_status(const struct peer *p);

/* A header of the last answer, until the next request; NULL: it had none. */
const char *peer_header(const struct peer *p, const char *name);

/* Whether the last request ended because tick said so; then its result is a failure. */
bool peer_gave_up(const struct peer *p);

/* body may be NULL; *answer, which the caller drops, may not be wanted: NULL. */
int peer_ask(struct peer *p, const char *method, const char *path, const json_t *body,
             json_t **answer, struct err *e);

/* The bytes of an answer that need not be JSON. */
int peer_text(struct peer *p, const char *path, struct buf *out, struct err *e);
int peer_download(struct peer *p, const char *path, FILE *out, struct err *e);

/* A file as a form, from the disk as it is sent. */
struct peer_file {
    const char *path, *purpose;
    void (*progress)(void *ctx, int64_t sent, int64_t bytes); /* on each tick; NULL */
    void *ctx;
};
int peer_upload(struct peer *p, const struct peer_file *f, json_t **answer, struct err *e);

/* Events until the stream ends; 0 when it ended whole, which is for `fn` to judge. */
int peer_stream(struct peer *p, const char *path, const json_t *body, sse_fn *fn, void *ctx,
                struct err *e);

/* A name in a path, with what must be escaped escaped; free() it. */
char *peer_escape(const char *name);

#endif
