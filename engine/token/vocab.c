/* SPDX-License-Identifier: Apache-2.0
 *
 * The blob begins with one unused byte, so that a place of 0 means that an id has no text.
 */
#include "engine/token/vocab.h"

#include <stdlib.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

static const size_t max_blob_bytes = UINT32_MAX;

void vocab_init(struct vocab *v)
{
    *v = (struct vocab){.blob_len = 1, .mask = 63};
    v->key[0] = map_hash("vocab", 5);
    v->key[1] = map_hash("table", 5) | 1;
    v->slot = xcalloc(v->mask + 1, sizeof *v->slot);
}

void vocab_release(struct vocab *v)
{
    free(v->blob);
    free(v->text);
    free(v->slot);
    *v = (struct vocab){0};
}

static int grow_ids(struct vocab *v, uint32_t id, struct err *e)
{
    uint32_t cap = v->cap_id ? v->cap_id : 256;
    while (cap <= id)
        cap *= 2;
    if (cap > v->cap_id) {
        void *p = try_resize(v->text, cap * sizeof *v->text, "vocabulary", e);
        if (!p)
            return -1;
        v->text = p;
        memset(v->text + v->cap_id, 0, (cap - v->cap_id) * sizeof *v->text);
        v->cap_id = cap;
    }
    v->n_id = id + 1 > v->n_id ? id + 1 : v->n_id;
    return 0;
}

static int grow_blob(struct vocab *v, size_t more, struct err *e)
{
    if (v->blob_len + more <= v->blob_cap)
        return 0;
    size_t cap = v->blob_cap * 2 + more + 4096;
    if (cap > max_blob_bytes)
        return err_set(e, ERR_TOO_LARGE, "the texts of the vocabulary take more than 4 GiB");
    void *p = try_resize(v->blob, cap, "vocabulary", e);
    if (!p)
        return -1;
    v->blob = p;
    v->blob_cap = cap;
    return 0;
}

static void put_slot(struct vocab *v, uint64_t h, uint32_t id)
{
    uint32_t i = (uint32_t)h & v->mask;
    while (v->slot[i])
        i = (i + 1) & v->mask;
    v->slot[i] = h >> 32 << 32 | (id + 1);
}

static int grow_slots(struct vocab *v, struct err *e)
{
    uint32_t n = (v->mask + 1) * 2;
    uint64_t *old = v->slot, *slot = try_resize(NULL, n * sizeof *slot, "vocabulary", e);
    if (!slot)
        return -1;
    memset(slot, 0, n * sizeof *slot);
    v->slot = slot;
    v->mask = n - 1;
    for (uint32_t i = 0; i < n / 2; i++) {
        if (old[i]) {
            uint32_t id = (uint32_t)old[i] - 1;
            put_slot(v, vocab_hash(v, v->blob + v->text[id].at, v->text[id].len), id);
        }
    }
    free(old);
    return 0;
}

int vocab_add(struct vocab *v, const void *text, size_t len, uint32_t id, bool is_found,
              struct err *e)
{
    uint64_t h = vocab_hash(v, text, len);
    if (id >= VOCAB_MAX_IDS)
        return err_set(e, ERR_TOO_LARGE, "token id %u; ids end at %d", id, VOCAB_MAX_IDS - 1);
    if (len > VOCAB_MAX_PIECE_BYTES)
        return err_set(e, ERR_TOO_LARGE, "token %u has %zu bytes; at most %d", id, len,
                       VOCAB_MAX_PIECE_BYTES);
    if (id < v->n_id && v->text[id].at)
        return err_set(e, ERR_BAD_INPUT, "token id %u is given to two tokens", id);
    if (is_found && vocab_find_hash(v, h, text, len) >= 0)
        return err_set(e, ERR_BAD_INPUT, "token %u has the text of another token", id);
    if (grow_ids(v, id, e) || grow_blob(v, len + 1, e) ||
        (v->n_entry >= v->mask / 2 && grow_slots(v, e)))
        return -1;
    v->text[id] = (struct vocab_text){(uint32_t)v->blob_len, (uint32_t)len};
    memcpy(v->blob + v->blob_len, text, len);
    v->blob[v->blob_len + len] = 0;
    v->blob_len += len + 1;
    if (is_found) {
        put_slot(v, h, id);
        v->n_entry++;
    }
    return 0;
}

int32_t vocab_find(const struct vocab *v, const void *p, size_t n)
{
    return vocab_find_hash(v, vocab_hash(v, p, n), p, n);
}
