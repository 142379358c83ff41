/* SPDX-License-Identifier: Apache-2.0
 *
 * What a person reads when the server is ready: what it serves, in what memory, how many at once,
 * where, who may ask, its page, and lines to paste. It goes to stdout, of which the server has no
 * other use; logs go to stderr.
 *
 * Thread: any.
 */
#ifndef SERVER_BANNER_H
#define SERVER_BANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "server/http/listen.h"

struct engine_info;

struct banner {
    const struct engine_info *model;
    const struct listen_at *at;
    const char *data_dir; /* NULL: no fine-tuning */
    int64_t threads;
    bool wants_key;
};

void banner_write(const struct banner *b, struct buf *out);

#endif
