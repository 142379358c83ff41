/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of trainings that clients step through (server/tinker): sessions, models, their requests in
 * line, saved weights, samplers. As all of the store: what a call has returned 0 for is on the
 * disk, and each is a transaction of its own.
 *
 * A model is the list of its requests: next is the one whose turn it is, kept the last that is in
 * the state on the disk (-1: none is), and bodies behind that stay, to be run again.
 *
 * Thread: any.
 */
#ifndef SERVER_STORE_STORE_LOOP_H
#define SERVER_STORE_STORE_LOOP_H

#include "server/store/store.h"

enum { LOOP_ATTENTION = 1, LOOP_OTHERS = 2 }; /* of `parts`: products that are trained */

struct loop_model {
    const char *id, *owner, *session, *base, *fingerprint;
    int64_t rank, seed, parts; /* rank 0: not begun, or could not be */
    int64_t next, kept, created, seen;
};

/* Of one that broke gradients that were there are gone, of one that failed nothing has changed. */
enum loop_state { LOOP_WAITS, LOOP_DONE, LOOP_FAILED, LOOP_BROKE };

struct loop_request {
    const char *id, *owner, *line;
    int64_t seq, kind, place;
    enum loop_state state;
    const char *body, *answer; /* NULL: none */
    size_t n_body, n_answer;
    int64_t created; /* of one that came to something: then */
};

struct loop_weights {
    const char *path, *owner, *model, *dir, *base, *fingerprint;
    int64_t rank, parts, created, expires, bytes; /* expires 0: never */
    bool is_sampler, is_named;
};

struct loop_sampler {
    const char *id, *owner, *session, *path; /* path NULL: the base */
    int64_t created;
};

int store_loop_session_add(struct store *s, const char *id, const char *owner, int64_t now,
                           int64_t most, struct err *e); /* ERR_BUSY: the owner has `most` */
/* Seen now; ERR_NOT_FOUND. */
int store_loop_session_see(struct store *s, const char *id, const char *owner, int64_t now,
                           struct err *e);
/* One that was not seen since, or since `bare` where it has no model, of any owner; ERR_NOT_FOUND:
 * none. */
int store_loop_session_old(struct store *s, int64_t since, int64_t bare, struct arena *a,
                           const char **id, struct err *e);
int store_loop_session_end(struct store *s, const char *id, const char *owner, struct err *e);
/* Its models, requests and samplers, and weights without a name go with it. */
int store_loop_session_drop(struct store *s, const char *id, struct err *e);
/* id NULL: all there are. */
int store_loop_session_models(struct store *s, const char *id, struct arena *a,
                              struct loop_model **out, size_t *n, struct err *e);

/* Puts it in its line; the same again is nothing. Of seq 0 of a model the model's row is made too
 * (m; NULL: it is not its first). ERR_NOT_FOUND: the owner has no such line. ERR_BUSY: as much
 * waits as may. ERR_NO_SPACE: it has as many models as it may. ERR_TOO_LARGE: it would keep more
 * than `stored`. */
struct loop_most {
    int64_t requests, bytes, models; /* of an owner: that wait, that they have, that it has */
    int64_t stored;                  /* as store_loop_bytes; 0: any */
};
int store_loop_put(struct store *s, const struct loop_request *r, const struct loop_model *m,
                   const struct loop_most *most, bool *is_new, struct err *e);
int store_loop_get(struct store *s, const char *owner, const char *id, struct arena *a,
                   struct loop_request *out, struct err *e); /* ERR_NOT_FOUND */

/* Answers of samples that ended before. */
int store_loop_expire(struct store *s, int64_t before, struct err *e);
/* All that wait, without their bodies. */
int store_loop_open(struct store *s, struct arena *a, struct loop_request **out, size_t *n,
                    struct err *e);

/* The request of a model whose turn it is: of the key that was served least recently, and of its
 * models likewise. */
int store_loop_next(struct store *s, const char *fingerprint, struct arena *a,
                    struct loop_request *out, struct err *e); /* ERR_NOT_FOUND */
/* A key's samples that wait, behind a place. */
int store_loop_samples(struct store *s, const char *owner, int64_t behind, size_t most,
                       struct arena *a, struct loop_request **out, size_t *n, struct err *e);
/* Those of a model from seq on that came to something, in their order. */
int store_loop_ran(struct store *s, const char *model, int64_t from, struct arena *a,
                   struct loop_request *out, struct err *e); /* the first; ERR_NOT_FOUND */

int store_loop_model(struct store *s, const char *owner, const char *id, struct arena *a,
                     struct loop_model *out, struct err *e); /* owner NULL: any; ERR_NOT_FOUND */

/* What a request came to, all of it or nothing: its answer, and with it what is new. */
struct loop_end {
    const struct loop_request *request; /* its state and answer */
    const struct loop_model *model;     /* rank, seed, parts of one that begins; NULL */
    const struct loop_weights *weights; /* NULL: none; one of this path goes */
    const struct loop_sampler *sampler; /* NULL: none */
    bool runs_again;                    /* behind a state: its body is kept for that */
};
int store_loop_end(struct store *s, const struct loop_end *end, struct err *e);

/* The state on the disk is that behind request seq: bodies up to it go, and old answers. */
int store_loop_keep(struct store *s, const char *model, int64_t seq, int64_t answers,
                    struct err *e);

int store_loop_weights(struct store *s, const char *owner, const char *path, struct arena *a,
                       struct loop_weights *out, struct err *e); /* ERR_NOT_FOUND */
int store_loop_weights_drop(struct store *s, const char *owner, const char *path, struct err *e);
/* Of a model (NULL: of all that owner, NULL: anybody, has), newest first. */
int store_loop_weights_list(struct store *s, const char *owner, const char *model, struct arena *a,
                            struct loop_weights **out, size_t *n, struct err *e);
/* Whose time is over. */
int store_loop_weights_over(struct store *s, int64_t now, struct arena *a,
                            struct loop_weights **out, size_t *n, struct err *e);
/* Of all that an owner has saved, and of the bodies and answers of its requests that are kept. */
int store_loop_bytes(struct store *s, const char *owner, int64_t *bytes, struct err *e);
/* ERR_NOT_FOUND: no such session; ERR_NO_SPACE: its owner has as many. One that is there is good.
 */
int store_loop_sampler_add(struct store *s, const struct loop_sampler *m, int64_t most,
                           struct err *e);
int store_loop_sampler(struct store *s, const char *owner, const char *id, struct arena *a,
                       struct loop_sampler *out, struct err *e); /* ERR_NOT_FOUND */

#endif
