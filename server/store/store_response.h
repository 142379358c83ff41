/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of answers that are kept: responses and chats (store_response.c).
 *
 * Thread: any.
 */
#ifndef SERVER_STORE_STORE_RESPONSE_H
#define SERVER_STORE_STORE_RESPONSE_H

#include "server/store/store.h"

/* What kind of answer a row is; the store's numbers. */
enum response_kind { RESPONSE_ITEMS, RESPONSE_CHAT };

struct response_row {
    enum response_kind kind;
    const char *id, *owner, *previous; /* previous: NULL: none */
    const char *model, *metadata;      /* a chat's; metadata: JSON; NULL: none */
    const char *input, *body;          /* JSON: what was asked; what was said */
    int64_t bytes, created, expires;
};

/* A chat that goes for others, or since its time is over, has its place in lists on. An owner's
 * oldest go where all of them are more than quota. ERR_BAD_INPUT: it is more alone. */
int store_response_add(struct store *s, const struct response_row *r, int64_t quota, struct err *e);
int store_response_get(struct store *s, const char *owner, enum response_kind kind, const char *id,
                       int64_t now, struct arena *a, struct response_row *out,
                       struct err *e); /* ERR_NOT_FOUND */
int store_response_drop(struct store *s, const char *owner, enum response_kind kind, const char *id,
                        struct err *e);
/* Gives it other metadata; NULL: none. Others go as with store_response_add. */
int store_response_mark(struct store *s, const char *owner, enum response_kind kind, const char *id,
                        const char *metadata, int64_t quota, struct err *e);
/* Without what they hold; those whose time is over, too. */
int store_response_list(struct store *s, const char *owner, enum response_kind kind,
                        const struct store_page *page, struct arena *a, struct response_row **out,
                        size_t *n, bool *more, struct err *e);
/* Some whose time is over; *more: there may be more of them, of whatever owner. */
int store_response_expire(struct store *s, int64_t now, bool *more, struct err *e);

#endif
