/* SPDX-License-Identifier: Apache-2.0
 *
 * Token texts by id, and ids by text: one blob of bytes, one span per id, and an open table of
 * (hash, id) kept under half full. Ids may have gaps. The hash is keyed per process, so neither a
 * file nor a text can be made to collide.
 *
 * Thread: any, once filled.
 */
#ifndef ENGINE_TOKEN_VOCAB_H
#define ENGINE_TOKEN_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/err.h"

enum {
    VOCAB_MAX_IDS = 1 << 21,
    VOCAB_MAX_PIECE_BYTES = 64 << 10,
};

struct vocab_text {
    uint32_t at, len; /* in blob; at 0: no such id */
};

struct vocab {
    uint8_t *blob;           /* owned; each text is terminated */
    struct vocab_text *text; /* owned, by id */
    uint64_t *slot;          /* owned; hash of 32 bits over id + 1; 0 is empty */
    size_t blob_len, blob_cap;
    uint64_t key[2];
    uint32_t n_id, cap_id, n_entry, mask;
};

void vocab_init(struct vocab *v);
void vocab_release(struct vocab *v);

/* ERR_BAD_INPUT when the id or (with find) the text is taken. Texts that are never looked for
 * (is_found false) only have an id. */
int vocab_add(struct vocab *v, const void *text, size_t len, uint32_t id, bool is_found,
              struct err *e);

static inline uint64_t vocab_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t vocab_hash(const struct vocab *v, const uint8_t *p, size_t n)
{
    uint64_t h = v->key[0] ^ n, a = 0, b = 0;
    for (; n > 16; p += 16, n -= 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = vocab_mix(a ^ h, b ^ v->key[1]);
    }
    if (n >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 8, 8);
    } else if (n >= 4) {
        uint32_t x, y;
        memcpy(&x, p, 4);
        memcpy(&y, p + n - 4, 4);
        a = x, b = y;
    } else if (n) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[n / 2] << 8 | p[n - 1];
        b = 0;
    }
    return vocab_mix(a ^ h, b ^ v->key[1]);
}

/* The id of the text whose hash is h, or -1. */
static inline int32_t vocab_find_hash(const struct vocab *v, uint64_t h, const uint8_t *p, size_t n)
{
    uint64_t tag = h >> 32;
    for (uint32_t i = (uint32_t)h & v->mask; v->slot[i]; i = (i + 1) & v->mask) {
        if (v->slot[i] >> 32 != tag)
            continue;
        uint32_t id = (uint32_t)v->slot[i] - 1;
        struct vocab_text t = v->text[id];
        if (t.len == n && !memcmp(v->blob + t.at, p, n))
            return (int32_t)id;
    }
    return -1;
}

int32_t vocab_find(const struct vocab *v, const void *p, size_t n);

/* The text of an id, terminated; NULL when there is none. */
static inline const uint8_t *vocab_text(const struct vocab *v, uint32_t id, uint32_t *len)
{
    if (id >= v->n_id || !v->text[id].at)
        return NULL;
    *len = v->text[id].len;
    return v->blob + v->text[id].at;
}

#endif
