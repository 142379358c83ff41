/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that are kept as rows of the store, under their key and for a time, with a data directory
 * alone: what the routes of responses and of stored chats share.
 *
 * Thread: kept_keeper the call's HTTP thread; the others an errand's work.
 */
#ifndef SERVER_ROUTES_KEPT_H
#define SERVER_ROUTES_KEPT_H

#include "server/answer/keeping.h"
#include "server/desk/desk.h"
#include "server/store/store_response.h"

/* What a generation hands its answer to, in the call's arena; NULL: none is kept. */
const struct keeper *kept_keeper(struct call *c, enum response_kind kind, api_recall_fn *recall);

/* The row of the asker's that the path names; -1 with an error. */
int kept_find(struct errand *t, enum response_kind kind, struct response_row *r,
              struct api_error *e);

/* Deletes it, and says so as `object`. */
enum errand_end kept_drop(struct errand *t, enum response_kind kind, const char *object,
                          struct api_error *e);

#endif
