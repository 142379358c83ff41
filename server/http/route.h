/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes: which function answers which method and path, who may ask, and how much body is read.
 * The table is server/http/routes.def; tests bring tables of their own.
 *
 * A path is matched after it was decoded, so a parameter may hold slashes and colons however they
 * were sent. The first row that fits answers, so a longer path stands before the one whose
 * parameter would take it whole.
 *
 * A row with an intake has its body pushed piece by piece while it comes, and keeps what it likes
 * of it; other bodies are collected, and the function sees them whole.
 *
 * Thread: any; everything is constant.
 */
#ifndef SERVER_HTTP_ROUTE_H
#define SERVER_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "api/error.h"
#include "server/http/call.h"

/* Takes the body of a call while it comes, on the call's HTTP thread. Each error is the answer. */
struct intake {
    const char *type; /* the media type that bodies must have */
    /* Before the body. What it returns is call_intake's to everybody, and freed with the call
     * or before; NULL: refused. length: what the client says; -1: nothing. */
    void *(*begin)(struct call *c, int64_t length, struct api_error *e);
    int (*push)(void *ctx, const char *p, size_t n, struct api_error *e);
    /* Whether or not the function ran; on the thread that ends the call, or refuses the rest. */
    void (*free)(void *ctx);
};

struct route {
    const char *name, *method, *path; /* path: at most one {parameter} */
    unsigned scope;
    size_t max_body; /* 0: no body is read */
    void (*fn)(struct call *c);
    const struct intake *intake; /* NULL: the body is collected */
    bool in_background;          /* the function may wait for a disk: it runs as background work */
    bool acts;           /* it changes what is kept or served: the log has a line for each call */
    bool is_probe;       /* it says whether the server lives, or is ready */
    bool asks_engine;    /* for texts or vectors: refused before the body while its queue is full */
    bool is_one_text;    /* one prompt: a body that no context holds is refused before it is read */
    bool takes_any_type; /* bodies are JSON whatever their Content-Type says: curl's own is another
                          */
};

extern const struct route routes[];
extern const size_t n_routes;

struct route_match {
    const struct route *route; /* NULL: no row fits */
    const char *param;         /* in the path given */
    size_t n_param;
    char allow[64]; /* the methods that the path has; "" when it has none */
};

/* HEAD fits rows of GET. */
struct route_match route_find(const struct route *table, size_t n, const char *method,
                              const char *path);

/* What clients of other servers may look for at this path and this one does not have, as "Uploads
 * in parts", and what there is instead; NULL: nothing that it knows of. */
struct route_absent {
    const char *path, *what, *instead; /* instead: NULL: nothing */
};
const struct route_absent *route_absent(const char *path);

/* What errors look like at this path, whether or not a row fits. */
enum api_error_form route_error_form(const char *path);

/* Decodes %xx in place; -1 when one is broken, or makes a byte below 0x20 or 0x7f. */
int route_decode(char *path);

#define ROUTE(name, ...) void route_##name(struct call *c);
#include "server/http/routes.def"
#undef ROUTE
extern const struct intake upload_intake, part_intake; /* server/desk/upload.c */

#endif
