/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of uploads in parts, and of their parts, whose bytes lie in the data directory under their
 * ids. As all of the store: what a call has returned 0 for is on the disk, and each is a
 * transaction of its own.
 *
 * Thread: any.
 */
#ifndef SERVER_STORE_STORE_PARTS_H
#define SERVER_STORE_STORE_PARTS_H

#include "api/parts.h"
#include "server/store/store.h"

int store_parts_add(struct store *s, const struct parts *p, struct err *e);
int store_parts_get(struct store *s, const char *owner, const char *id, struct arena *a,
                    struct parts *out, struct err *e); /* ERR_NOT_FOUND */
int store_parts_count(struct store *s, const char *owner, int64_t *n, struct err *e); /* rows */

/* ERR_BUSY: the upload is not pending any more, as with those below. */
int store_part_add(struct store *s, const struct part *p, struct err *e);
int store_part_sum(struct store *s, const char *upload, int64_t *n, int64_t *bytes, struct err *e);
int store_part_list(struct store *s, const char *upload, struct arena *a, struct part **out,
                    size_t *n, struct err *e);
int store_part_has(struct store *s, const char *id, bool *has, struct err *e);
int store_part_is_needed(struct store *s, const char *id, bool *is_needed, struct err *e);

/* The file is there; of the upload's parts nothing is needed any more. */
int store_parts_complete(struct store *s, const struct parts *p, const struct file_row *f,
                         struct err *e);
int store_parts_cancel(struct store *s, const struct parts *p, struct err *e);

/* The rows of an upload's parts, whose bytes are gone. */
int store_part_drop(struct store *s, const char *upload, struct err *e);

/* One whose time is over, of any owner and state; ERR_NOT_FOUND: none. */
int store_parts_expired(struct store *s, int64_t now, struct arena *a, struct parts *out,
                        struct err *e);
int store_parts_drop(struct store *s, const char *id, struct err *e); /* behind its parts */

#endif
