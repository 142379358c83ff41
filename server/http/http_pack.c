/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed in one go, into room for a little less than there was: what does not get into it stays.
 */
#include "server/http/http_pack.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "engine/base/mem.h"

enum { GZIP_BITS = 15 + 16 /* of its window, and a header of gzip's */, MEMORY_LEVEL = 8 };

bool pack_may(const char *type, size_t n)
{
    static const char *const texts[] = {"application/json", "application/javascript", "text/",
                                        "image/svg+xml", "application/jsonl"};
    bool is_text = false;
    for (size_t i = 0; type && i < sizeof texts / sizeof *texts; i++)
        is_text |= strncmp(type, texts[i], strlen(texts[i])) == 0;
    return is_text && n >= PACK_LEAST_BYTES && n <= PACK_MOST_BYTES;
}

/* Whether a coding's parameters, from its first ';' on, have no weight of 0. */
static bool has_weight(const char *p, const char *end)
{
    for (; p < end; p++) {
        p += strspn(p, "; \t");
        if (end - p > 1 && (*p == 'q' || *p == 'Q') && p[1] == '=')
            return strtod(p + 2, NULL) > 0;
        while (p < end && *p != ';')
            p++;
    }
    return true;
}

bool pack_is_taken(const char *accept)
{
    bool takes_any = false;
    for (const char *p = accept; p && *p; p += *p == ',') {
        p += strspn(p, " \t");
        size_t n = strcspn(p, ",; \t"), all = strcspn(p, ",");
        bool is_named =
            (n == 4 && !strncasecmp(p, "gzip", n)) || (n == 6 && !strncasecmp(p, "x-gzip", n));
        bool weighs = has_weight(p + n, p + all);
        if (is_named)
            return weighs;
        takes_any |= n == 1 && *p == '*' && weighs;
        p += all;
    }
    return takes_any;
}

/* True: what came of it is `to` bytes long, which are fewer. */
static bool deflate_all(z_stream *z, struct buf *body, char *to, size_t cap, size_t *n)
{
    z->next_in = (Bytef *)body->data;
    z->avail_in = (uInt)body->len;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)cap;
    bool is_done = deflate(z, Z_FINISH) == Z_STREAM_END;
    *n = cap - z->avail_out;
    return is_done;
}

bool pack(struct buf *body)
{
    z_stream z = {.zalloc = Z_NULL};
    size_t n = 0, cap = body->len - body->len / 16;
    char *to = try_alloc(cap, 1, "a packed answer", NULL);
    bool is_good = to && deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_BITS, MEMORY_LEVEL,
                                      Z_DEFAULT_STRATEGY) == Z_OK;
    if (is_good) {
        is_good = deflate_all(&z, body, to, cap, &n);
        deflateEnd(&z);
    }
    if (is_good) {
        buf_clear(body);
        buf_add(body, to, n); /* which has room for more */
    }
    mem_free(to);
    return is_good;
}
