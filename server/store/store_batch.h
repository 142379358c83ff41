/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of batches. As all of the store: what a call has returned 0 for is on the disk, and each is
 * a transaction of its own.
 *
 * Thread: any.
 */
#ifndef SERVER_STORE_STORE_BATCH_H
#define SERVER_STORE_STORE_BATCH_H

#include "api/batch.h"
#include "server/store/store.h"

/* retry: a name under which the same creation is known again, and the body's digest; NULL: none.
 * Of its owner `kept` are, this one among them: the oldest that has ended goes. */
int store_batch_add(struct store *s, const struct batch *b, const char *retry, const char *body,
                    int64_t kept, struct err *e);
/* The newest one under this name that was made at `since` or later: found->id is NULL where there
 * is none. ERR_EXISTS: its body was another. */
int store_batch_retry(struct store *s, const char *owner, const char *retry, const char *body,
                      int64_t since, struct arena *a, struct batch *found, struct err *e);
int store_batch_get(struct store *s, const char *owner, const char *id, struct arena *a,
                    struct batch *out, struct err *e); /* ERR_NOT_FOUND */
int store_batch_list(struct store *s, const char *owner, const struct store_page *page,
                     struct arena *a, struct batch **out, size_t *n, bool *more, struct err *e);

/* Those that have something to be done for them: at most `most` to be validated, cancelled or over
 * their time; and of each owner the oldest of the others that have not ended, at most `most`, too,
 * so that none of the first waits for the end of these. */
int store_batch_open(struct store *s, int64_t now, size_t most, struct arena *a, struct batch **out,
                     size_t *n, struct err *e);
int store_batch_count(struct store *s, const char *owner, int64_t *open, struct err *e);
int store_batch_has(struct store *s, const char *id, bool *has, struct err *e);
int store_batch_is_open(struct store *s, const char *id, bool *is_open, struct err *e);

/* What becomes of a batch, and files that it made (those that are there already stay), all of it or
 * nothing, if its state still is one of `from` (bits 1 << state). ERR_BUSY: it is another. */
int store_batch_change(struct store *s, const struct batch *b, unsigned from,
                       const struct file_row *file, size_t n_file, struct err *e);

#endif
