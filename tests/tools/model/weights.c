/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws and writes the weights. Sixteen bits of the counter-based generator make a number, so one
 * call makes eight; threads draw pieces of a buffer that is then written. Matrices have the
 * variance that keeps the size of what goes through them, norms lie around one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/pool.h"
#include "engine/base/rng.h"
#include "engine/load/path.h"
#include "engine/load/st_writer.h"
#include "kernels/float16.h"
#include "tests/tools/model/model.h"

enum { PER_BLOCK = 8, BUFFER_BLOCKS = 1 << 20, GRAIN = 1 << 14 };

struct fill {
    const struct made *t;
    uint64_t seed, stream;
    int64_t first_block;
    enum st_dtype dtype;
    void *out;
};

/* Uniform numbers with the wanted deviation: half width is sqrt(3) times that. */
static float width_of(const struct made *t)
{
    switch (t->draw) {
    case DRAW_MATRIX:
    case DRAW_EMBED:
        return sqrtf(3.0f / (float)t->dim[t->rank - 1]);
    case DRAW_NORM:
        return 0.1f;
    case DRAW_BIAS:
        return 0.02f;
    }
    return 0;
}

static void fill_blocks(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct fill *f = ctx;
    float scale = width_of(f->t) / 32768, shift = f->t->draw == DRAW_NORM ? 1 : 0;
    (void)thread;
    for (int64_t b = lo; b < hi; b++) {
        struct rng_block r = rng_at(f->seed, f->stream, (uint64_t)(f->first_block + b));
        for (int i = 0; i < PER_BLOCK; i++) {
            uint32_t bits = r.v[i / 2] >> 16 * (i % 2) & 0xffff;
            float x = shift + ((float)bits - 32767.5f) * scale;
            int64_t at = b * PER_BLOCK + i;
            if (f->dtype == ST_F32)
                ((float *)f->out)[at] = x;
            else
                ((uint16_t *)f->out)[at] = f->dtype == ST_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
        }
    }
}

static const struct made *find(const struct made *t, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++)
        if (strcmp(t[i].name, name) == 0)
            return &t[i];
    BUG("no tensor %s", name);
}

/* A tensor's stream follows from its name, so that its numbers depend neither on the tensors
 * beside it nor on the number of files (FNV-1a). */
static uint64_t stream_of(const char *name)
{
    uint64_t h = 0xcbf29ce484222325;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3;
    return h;
}

static int write_tensor(struct st_writer *w, const struct st_tensor *st, struct fill *f,
                        struct pool *pool, struct err *e)
{
    int64_t n = st_tensor_count(st), size = st_dtype_bits(f->dtype) / 8;
    f->stream = stream_of(st->name);
    for (int64_t at = 0; at < n; at += (int64_t)BUFFER_BLOCKS * PER_BLOCK) {
        int64_t some = n - at < (int64_t)BUFFER_BLOCKS * PER_BLOCK
                           ? n - at
                           : (int64_t)BUFFER_BLOCKS * PER_BLOCK;
        f->first_block = at / PER_BLOCK;
        pool_run(pool, fill_blocks, f, (some + PER_BLOCK - 1) / PER_BLOCK, GRAIN);
        if (st_writer_write(w, f->out, (size_t)(some * size), e))
            return -1;
    }
    return 0;
}

static int write_file(const char *dir, const char *name, const struct made *t, int64_t n,
                      struct fill *f, struct pool *pool, struct err *e)
{
    struct st_writer *w = st_writer_new();
    const struct st_tensor *next;
    char *path = path_join(dir, name);
    int rc = st_writer_meta(w, "format", "pt", e);
    for (int64_t i = 0; i < n && rc == 0; i++)
        rc = st_writer_add(w, t[i].name, f->dtype, t[i].rank, t[i].dim, e);
    if (rc == 0)
        rc = st_writer_open(w, path, e);
    while (rc == 0 && (next = st_writer_next(w))) {
        f->t = find(t, n, next->name);
        rc = write_tensor(w, next, f, pool, e);
    }
    if (rc == 0)
        rc = st_writer_commit(w, e);
    st_writer_free(w);
    free(path);
    return rc;
}

static int64_t count_of(const struct made *t)
{
    return t->dim[0] * (t->rank == 2 ? t->dim[1] : 1);
}

/* Shard k takes tensors until k + 1 shares of all elements are passed. */
static int write_shards(const char *dir, const struct made *t, int64_t n, int64_t n_shard,
                        struct fill *f, struct pool *pool, struct buf *index, struct err *e)
{
    int64_t all = 0, sum = 0, at = 0;
    for (int64_t i = 0; i < n; i++)
        all += count_of(&t[i]);
    buf_printf(index, "{\n\"metadata\": {\"total_size\": %lld},\n\"weight_map\": {\n",
               (long long)(all * st_dtype_bits(f->dtype) / 8));
    for (int64_t k = 0; k < n_shard; k++) {
        char name[64];
        int64_t from = at;
        snprintf(name, sizeof name, "model-%05lld-of-%05lld.safetensors", (long long)k + 1,
                 (long long)n_shard);
        while (at < n && (k + 1 == n_shard || sum < all / n_shard * (k + 1))) {
            sum += count_of(&t[at]);
            buf_printf(index, "\"%s\": \"%s\"%s\n", t[at].name, name, at + 1 < n ? "," : "");
            at++;
        }
        if (write_file(dir, name, t + from, at - from, f, pool, e))
            return -1;
    }
    buf_str(index, "}}\n");
    return text_put(dir, "model.safetensors.index.json", index, e);
}

int weights_make(const char *dir, const struct made *t, int64_t n, enum st_dtype dtype,
                 int64_t n_shard, uint64_t seed, struct err *e)
{
    struct fill f = {.seed = seed, .dtype = dtype};
    struct pool *pool = pool_new(0, false, e);
    struct buf index;
    int rc = -1;
    buf_init(&index, 64 << 20);
    f.out = try_alloc((size_t)BUFFER_BLOCKS * PER_BLOCK, sizeof(float), "a piece of weights", e);
    if (pool && f.out)
        rc = n_shard > 1 ? write_shards(dir, t, n, n_shard, &f, pool, &index, e)
                         : write_file(dir, "model.safetensors", t, n, &f, pool, e);
    buf_release(&index);
    mem_free(f.out);
    pool_free(pool);
    return rc;
}
