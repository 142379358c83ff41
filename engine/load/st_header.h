/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a safetensors file: names, types, shapes and places of its tensors. The rules are
 * the format's own: each tensor's data_offsets hold exactly its shape's bytes, and all of them
 * together cover the data part without a gap or an overlap. Where the reference implementation
 * takes more than its format promises we are stricter: no key twice, numbers below 2^53, nothing
 * before the brace, no control character in names; and we add ceilings (ST_MAX_*).
 *
 * The text is walked once, member by member (json_stream), so a header of 100 MB costs no tree.
 * Everything the header holds lives in its arena.
 *
 * Thread: one to make it, any to read it.
 */
#ifndef ENGINE_LOAD_ST_HEADER_H
#define ENGINE_LOAD_ST_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/map.h"
#include "engine/load/dtype.h"

enum {
    ST_MAX_HEADER_BYTES = 100000000,
    ST_MAX_TENSOR = 1000000,
    ST_MAX_NAME_BYTES = 512,
    ST_MAX_RANK = 8,
};

struct st_tensor {
    const char *name;    /* borrowed from the header */
    const int64_t *dim;  /* borrowed from the header, [rank] */
    uint64_t begin, end; /* bytes [begin, end) of the data part */
    enum st_dtype dtype;
    int rank;
};

struct st_meta {
    const char *key, *value; /* borrowed from the header */
};

struct st_header {
    struct arena arena;
    struct map by_name;        /* of struct st_tensor */
    struct buf list, meta_buf; /* behind tensor and meta */
    struct st_tensor **tensor; /* [n_tensor], ascending by begin */
    const struct st_meta *meta;
    size_t n_tensor, n_meta;
    uint64_t data_bytes;
};

/* `name` is what errors call the file; data_bytes is what follows the header in it. */
int st_header_init(struct st_header *h, const char *text, size_t len, uint64_t data_bytes,
                   const char *name, struct err *e);
void st_header_release(struct st_header *h);

/* Every tensor is called by this and its name from here on. */
void st_header_prefix(struct st_header *h, const char *prefix);

const struct st_tensor *st_header_get(const struct st_header *h, const char *name);
const char *st_header_meta(const struct st_header *h, const char *key); /* NULL when absent */

/* "BF16 [4096, 11008]" into buf; returns buf. */
const char *st_tensor_text(const struct st_tensor *t, char *buf, size_t size);
int64_t st_tensor_count(const struct st_tensor *t); /* elements */

#endif
