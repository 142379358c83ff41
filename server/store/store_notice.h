/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices: of each job that ended, a row that stays until somebody outside was told. It comes in
 * the transaction that ends the job, so no kill comes between the two.
 *
 * Thread: any, but for store_notices_begin.
 */
#ifndef SERVER_STORE_STORE_NOTICE_H
#define SERVER_STORE_STORE_NOTICE_H

#include "server/store/store.h"

struct notice_row {
    const char *id, *job;
    enum job_state state; /* which the job ended in */
    int64_t created;      /* seconds since 1970, as due */
    int64_t tries, due;   /* how often it was told in vain; not again before */
};

/* From here on there are such rows; came is called behind each, by whoever ended the job. Before
 * there is another thread. */
void store_notices_begin(struct store *s, void (*came)(void *ctx), void *ctx);

/* The one that is due first; ERR_NOT_FOUND: none. Texts lie in the arena. */
int store_notice_next(struct store *s, struct arena *a, struct notice_row *out, struct err *e);
int store_notice_later(struct store *s, const struct notice_row *n, struct err *e); /* tries, due */
int store_notice_drop(struct store *s, const char *id, struct err *e);

#endif
