/* SPDX-License-Identifier: Apache-2.0
 *
 * A POST that ends when its caller has no more time for it: what a server sends to others of its
 * own accord holds up no stop. Nothing is followed, and no proxy taken from the environment.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_CURL_POST_H
#define ENGINE_BASE_CURL_POST_H

#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/curl_lib.h"

struct curl_post {
    const char *url;            /* borrowed, as all of it */
    struct curl_slist *headers; /* NULL: none */
    const char *body;
    size_t n_body;
    struct buf *answer; /* NULL: nobody reads it */
    int timeout_ms;
    bool (*is_late)(void *ctx); /* asked again and again: there is no more time */
    void *ctx;
};

/* The status; 0: nobody answered, and text says why. */
long curl_post(const struct curl_lib *c, const struct curl_post *p, char text[CURL_ERROR_SIZE]);

#endif
