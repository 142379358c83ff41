/* SPDX-License-Identifier: Apache-2.0
 *
 * The items that a kept response was asked with, or the messages of a kept chat, as a page of a
 * list.
 *
 * Thread: any.
 */
#ifndef API_RESPONSE_ITEMS_H
#define API_RESPONSE_ITEMS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/error.h"
#include "engine/base/arena.h"

struct api_items_page {
    const char *after; /* borrowed: the id of an item; NULL: from the begin */
    int64_t limit;
    bool ascending; /* in the order in which they were sent */
};

/* input: a list of items, JSON. Those that have no id get one of the response's. */
int api_input_items_write(struct arena *a, const char *id, const char *input,
                          const struct api_items_page *page, struct buf *out, struct api_error *e);

/* The same of a chat's messages, which have ids by their places. */
int api_chat_messages_write(struct arena *a, const char *id, const char *input,
                            const struct api_items_page *page, struct buf *out,
                            struct api_error *e);

#endif
