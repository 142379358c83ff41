/* SPDX-License-Identifier: Apache-2.0
 *
 * See shards.h.
 */
#include "engine/quant/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/load/gguf_config.h"
#include "engine/load/path.h"
#include "kernels/float16.h"

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME  "model.safetensors.index.json"

enum { PIECE_BYTES = 4 << 20, PART_NAME_BYTES = ST_MAX_NAME_BYTES + 16 };

/* What stands behind a matrix's name: its codes, its scales, and of packed ones a shape. */
enum part { PART_CODES, PART_SCALE, PART_SHAPE, PART_COUNT };

static int parts(const struct quant_plan *p)
{
    return p->target->is_float ? PART_SHAPE : PART_COUNT;
}

static const char *part_name(char name[PART_NAME_BYTES], const struct quant_plan *p, const char *of,
                             enum part part)
{
    static const char *const behind[] = {"_packed", "_scale", "_shape"};
    bool is_bare = part == PART_CODES && p->target->is_float;
    snprintf(name, PART_NAME_BYTES, "%s%s", of, is_bare ? "" : behind[part]);
    return name;
}

static int declare_parts(struct st_writer *out, const struct quant_plan *p,
                         const struct quant_entry *t, struct err *e)
{
    char name[PART_NAME_BYTES];
    bool is_float = p->target->is_float;
    int64_t per_number = is_float ? 1 : QUANT_WORD_BITS / p->target->bits;
    const int64_t dim[PART_COUNT][2] = {
        {t->p->n, t->p->k / per_number}, {t->p->n, t->p->k / quant_group(p, t)}, {2}};
    const enum st_dtype dtype[] = {is_float ? ST_F8_E4M3 : ST_I32, quant_scale_dtype(p, t), ST_I64};
    for (int i = 0; i < parts(p); i++)
        if (st_writer_add(out, part_name(name, p, t->from->t->name, (enum part)i), dtype[i],
                          i == PART_SHAPE ? 1 : 2, dim[i], e))
            return -1;
    return 0;
}

static int open_shard(struct shards *s, struct shard *at, const char *dir, struct err *e)
{
    char *path = path_join(dir, at->name);
    int rc = st_writer_meta(at->out, "format", "pt", e);
    for (size_t i = at->lo; i < at->hi && !rc; i++) {
        const struct st_tensor *t = weights_at(s->from, i)->t;
        const struct quant_entry *entry = map_get_str(&s->plan->by_name, t->name);
        rc = entry ? declare_parts(at->out, s->plan, entry, e)
                   : st_writer_add(at->out, t->name, t->dtype, t->rank, t->dim, e);
    }
    if (!rc)
        rc = st_writer_open(at->out, path, e);
    free(path);
    return rc;
}

int shards_open(struct shards *s, const struct quant_plan *plan, const struct model_dir *from,
                const char *dir, struct err *e)
{
    size_t n = weights_count(from->weights), lo = 0;
    *s = (struct shards){.plan = plan, .from = from->weights};
    for (size_t i = 1; i <= n; i++) {
        const struct weight *first = weights_at(s->from, lo);
        if (i < n && weights_at(s->from, i)->file == first->file)
            continue;
        struct shard at = {.out = st_writer_new(),
                           .name = first->file ? weight_file_name(first) : SINGLE_NAME,
                           .lo = lo,
                           .hi = i};
        vec_push(&s->at, at);
        if (open_shard(s, &at, dir, e))
            return -1;
        lo = i;
    }
    return 0;
}

void shards_release(struct shards *s)
{
    for (size_t i = 0; i < s->at.n; i++)
        st_writer_free(s->at.at[i].out);
    vec_release(&s->at);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static int copy_tensor(struct st_writer *out, const struct weight *w, char *piece, struct err *e)
{
    const struct st_tensor *t = st_writer_get(out, w->t->name);
    int64_t len = weight_row_len(w), rows = weight_rows(w);
    size_t row_bytes = weight_row_bytes(w);
    if (!len || !row_bytes)
        return 0;
    int64_t n = rows * len, most = PIECE_BYTES / (int64_t)(row_bytes / (size_t)len);
    size_t size = row_bytes / (size_t)len;
    for (int64_t at = 0; at < n; at += most) {
        int64_t some = n - at < most ? n - at : most;
        if (weight_read_at(w, at / len, at % len, some, piece, e) ||
            st_writer_put(out, t, (uint64_t)at * size, piece, (size_t)some * size, e))
            return err_wrap(e, "%s", w->t->name);
    }
    return 0;
}

int shards_copy(struct shards *s, struct err *e)
{
    char *piece = try_alloc(1, PIECE_BYTES, "a piece of a tensor", e);
    int rc = piece ? 0 : -1;
    for (size_t k = 0; k < s->at.n; k++)
        for (size_t i = s->at.at[k].lo; i < s->at.at[k].hi && !rc; i++) {
            const struct weight *w = weights_at(s->from, i);
            if (!map_get_str(&s->plan->by_name, w->t->name))
                rc = copy_tensor(s->at.at[k].out, w, piece, e);
        }
    mem_free(piece);
    return rc;
}

static struct st_writer *writer_of(const struct shards *s, const struct quant_entry *t)
{
    char name[PART_NAME_BYTES];
    part_name(name, s->plan, t->from->t->name, PART_CODES);
    for (size_t k = 0; k < s->at.n; k++)
        if (st_writer_get(s->at.at[k].out, name))
            return s->at.at[k].out;
    BUG("%s is of no file", name);
}

static int put_scales(struct st_writer *out, const struct st_tensor *to, uint64_t at,
                      const float *scale, int64_t n, struct err *e)
{
    uint16_t half[QUANT_WORD_BITS];
    if (to->dtype == ST_F32)
        return st_writer_put(out, to, at * sizeof *scale, scale, (size_t)n * sizeof *scale, e);
    for (int64_t i = 0, some; i < n; i += some) {
        some = n - i < QUANT_WORD_BITS ? n - i : QUANT_WORD_BITS;
        for (int64_t k = 0; k < some; k++)
            half[k] =
                to->dtype == ST_BF16 ? bf16_from_f32(scale[i + k]) : f16_from_f32(scale[i + k]);
        if (st_writer_put(out, to, (at + (uint64_t)i) * sizeof *half, half,
                          (size_t)some * sizeof *half, e))
            return -1;
    }
    return 0;
}

int shards_put_rows(struct shards *s, const struct quant_entry *t, int64_t row, int64_t n,
                    const uint32_t *word, const float *scale, struct err *e)
{
    char name[PART_NAME_BYTES];
    struct st_writer *out = writer_of(s, t);
    const struct st_tensor *part[PART_COUNT];
    for (int i = 0; i < PART_COUNT; i++)
        part[i] = st_writer_get(out, part_name(name, s->plan, t->from->t->name, (enum part)i));
    size_t row_bytes = (size_t)(t->p->k * s->plan->target->bits / 8);
    int64_t groups = t->p->k / quant_group(s->plan, t), shape[2] = {t->p->n, t->p->k};
    if (row == 0 && part[PART_SHAPE] &&
        st_writer_put(out, part[PART_SHAPE], 0, shape, sizeof shape, e))
        return -1;
    return st_writer_put(out, part[PART_CODES], (uint64_t)row * row_bytes, word,
                         (size_t)n * row_bytes, e) ||
                   put_scales(out, part[PART_SCALE], (uint64_t)(row * groups), scale, n * groups, e)
               ? -1
               : 0;
}

/* ---- whole files --------------------------------------------------------------------------- */

static void put_places(const struct shards *s, const struct shard *at, const char **comma,
                       struct buf *out)
{
    for (size_t i = at->lo; i < at->hi; i++) {
        const char *name = weights_at(s->from, i)->t->name;
        bool is_entry = map_get_str(&s->plan->by_name, name);
        for (int k = 0; k < (is_entry ? parts(s->plan) : 1); k++) {
            char whole[PART_NAME_BYTES];
            if (is_entry)
                name = part_name(whole, s->plan, weights_at(s->from, i)->t->name, (enum part)k);
            buf_str(out, *comma);
            gguf_json_str(out, name, strlen(name));
            buf_char(out, ':');
            gguf_json_str(out, at->name, strlen(at->name));
            *comma = ",\n";
        }
    }
}

static int put_index(const struct shards *s, const char *path, uint64_t bytes, struct err *e)
{
    struct buf b;
    const char *comma = "";
    buf_init(&b, ST_MAX_HEADER_BYTES);
    buf_printf(&b, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{",
               (unsigned long long)bytes);
    for (size_t i = 0; i < s->at.n; i++)
        put_places(s, &s->at.at[i], &comma, &b);
    buf_str(&b, "}}\n");
    int rc = buf_check(&b, INDEX_NAME, e) || aside_put(path, b.data, b.len, e) ? -1 : 0;
    buf_release(&b);
    return rc;
}

int shards_commit(struct shards *s, const char *dir, uint64_t *bytes, struct err *e)
{
    char *index = path_join(dir, INDEX_NAME);
    int rc = 0;
    *bytes = 0;
    for (size_t i = 0; i < s->at.n && !rc; i++) {
        *bytes += st_writer_bytes(s->at.at[i].out);
        rc = st_writer_commit(s->at.at[i].out, e);
    }
    if (!rc) /* one that was copied speaks of other tensors */
        rc = s->at.n > 1 ? put_index(s, index, *bytes, e) : fs_remove(index, e);
    free(index);
    return rc;
}
