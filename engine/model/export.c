/* SPDX-License-Identifier: Apache-2.0
 *
 * A file after the other, in each a tensor after the other, some rows of it in memory.
 */
#include "engine/model/export.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fs.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/load/path.h"
#include "engine/load/st_writer.h"
#include "engine/load/stacked_weight.h"
#include "engine/load/weights.h"
#include "kernels/float16.h"

enum { PIECE_FLOATS = 1 << 20 };

struct export
{
    const struct model_dir *from;       /* borrowed */
    const struct model *m;              /* borrowed */
    const struct export_change *change; /* borrowed */
    bool *is_transposed;                /* owned: [n_param] */
    float *x;                           /* owned: rows at hand */
    int64_t cap;                        /* floats */
};

/* ---- which parameter a tensor is ----------------------------------------------------------- */

static void find_transposed(struct export *x)
{
    struct spec_walk w = spec_walk_begin(&x->m->cfg);
    bool *to = x->is_transposed;
    for (const struct spec_row *r; (r = spec_walk_next(&w));)
        *to++ = r->is_transposed;
}

static bool is_head(const char *name)
{
    static const char head[] = "lm_head.weight";
    size_t n = strlen(name), end = sizeof head - 1;
    return n >= end && strcmp(name + n - end, head) == 0;
}

/* A head that stands in the files beside the embedding which it is tied to follows that. */
static const struct param *param_of(const struct export *x, const char *name)
{
    const char *const *prefix = spec_prefix(&x->m->cfg);
    if (x->m->cfg.is_tied && is_head(name))
        return x->m->slot[SLOT_TOKEN_EMBED];
    for (; *prefix; prefix++) {
        size_t n = strlen(*prefix);
        const struct param *p = strncmp(name, *prefix, n) ? NULL : model_find(x->m, name + n);
        if (p)
            return p;
    }
    return NULL;
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* f32 to the file's type, in place: the narrow ones never overtake what is still to be read. */
const void *model_export_narrow(float *x, int64_t n, enum k_type type)
{
    uint16_t *half = (uint16_t *)(void *)x;
    if (type == K_F32)
        return x;
    for (int64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, &x[i], sizeof v);
        uint16_t h = type == K_BF16 ? bf16_from_f32(v) : f16_from_f32(v);
        memcpy(&half[i], &h, sizeof h);
    }
    return half;
}

static int reserve(struct export *x, int64_t floats, struct err *e)
{
    if (floats <= x->cap)
        return 0;
    mem_free(x->x);
    x->x = try_alloc((size_t)floats, sizeof *x->x, "rows of a tensor", e);
    x->cap = x->x ? floats : 0;
    return x->x ? 0 : -1;
}

/* n_row rows of a tensor, changed where p is not NULL. */
static int write_rows(struct export *x, struct st_writer *out, const struct weight *w,
                      const struct param *p, int64_t row, int64_t n_row, struct err *e)
{
    int64_t n = n_row * weight_row_len(w);
    size_t bytes = (size_t)n_row * weight_row_bytes(w);
    if (!p)
        return weight_read(w, row, n_row, x->x, e) || st_writer_write(out, x->x, bytes, e);
    if (weight_read_f32(w, row, n_row, x->x, e) ||
        x->change->fill(x->change->ctx, p, x->is_transposed[p->index], row, n_row, x->x, e))
        return -1;
    return st_writer_write(out, model_export_narrow(x->x, n, weight_k_type(w)), bytes, e);
}

static int write_tensor(struct export *x, struct st_writer *out, const struct weight *w,
                        struct err *e)
{
    const struct param *p = param_of(x, w->t->name);
    int64_t rows = weight_rows(w), floats = (int64_t)(weight_row_bytes(w) / sizeof(float)) + 1;
    enum k_type type;
    if (floats < weight_row_len(w))
        floats = weight_row_len(w);
    int64_t step = PIECE_FLOATS / floats + 1;
    if (p && (!st_dtype_k_type(w->t->dtype, &type) || !x->change->has(x->change->ctx, p)))
        p = NULL;
    if (reserve(x, (step < rows ? step : rows) * floats, e))
        return -1;
    for (int64_t row = 0; row < rows; row += step)
        if (write_rows(x, out, w, p, row, row + step < rows ? step : rows - row, e))
            return err_wrap(e, "%s", w->t->name);
    return 0;
}

/* ---- experts that share a tensor ------------------------------------------------------------ */

/* The parts of a tensor that are changed; where none is it is copied. */
static bool is_stack_changed(const struct export *x, const struct weight *part, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct param *p = param_of(x, part[i].t->name);
        if (p && x->change->has(x->change->ctx, p))
            return true;
    }
    return false;
}

/* Every step-th of n numbers out of `all`, or back into it. */
static void pick(float *some, float *all, int64_t n, int64_t step, bool is_back)
{
    for (int64_t i = 0; i < n; i++)
        if (is_back)
            all[i * step] = some[i];
        else
            some[i] = all[i * step];
}

/* One matrix, by inputs, or one vector, among `step` whose numbers come by turns in x->x, or one
 * behind the other. */
static int change_part(struct export *x, const struct weight *w, int64_t first, int64_t step,
                       struct err *e)
{
    const struct param *p = param_of(x, w->t->name);
    int64_t n = st_tensor_count(w->t);
    float *some = x->x + n * step;
    if (!p || !x->change->has(x->change->ctx, p))
        return 0;
    if (w->stack->by_outputs)
        return x->change->fill(x->change->ctx, p, false, 0, p->n, x->x + first * n, e);
    pick(some, x->x + first, n, step, false);
    if (x->change->fill(x->change->ctx, p, !p->is_vector, 0, p->is_vector ? p->n : p->k, some, e))
        return -1;
    pick(some, x->x + first, n, step, true);
    return 0;
}

/* An expert at a time. */
static int write_stack(struct export *x, struct st_writer *out, const struct weight *w,
                       const struct weight *part, size_t n_part, struct err *e)
{
    int64_t len = weight_row_len(w), step = (int64_t)n_part / weight_rows(w);
    if (reserve(x, len + len / step, e))
        return -1;
    for (int64_t i = 0; i < weight_rows(w); i++) {
        if (weight_read_f32(w, i, 1, x->x, e))
            return -1;
        for (int64_t k = 0; k < step; k++)
            if (change_part(x, &part[i * step + k], k, step, e))
                return -1;
        const void *to = model_export_narrow(x->x, len, weight_k_type(w));
        if (st_writer_write(out, to, weight_row_bytes(w), e))
            return -1;
    }
    return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

static int write_any(struct export *x, struct st_writer *out, const struct weight *w, struct err *e)
{
    size_t n;
    const struct weight *part = weights_stacked(x->from->weights, w, &n);
    if (!is_stack_changed(x, part, n))
        return write_tensor(x, out, w, e);
    return write_stack(x, out, w, part, n, e) ? err_wrap(e, "%s", w->t->name) : 0;
}

/* The file that holds tensors [lo, hi) of the source. */
static int write_file(struct export *x, const char *dir, size_t lo, size_t hi, struct err *e)
{
    const struct weights *w = x->from->weights;
    struct st_writer *out = st_writer_new();
    const struct st_tensor *next;
    const struct weight *first = weights_at(w, lo);
    char *path = path_join(dir, first->file ? weight_file_name(first) : "model.safetensors");
    int rc = st_writer_meta(out, "format", "pt", e);
    for (size_t i = lo; i < hi && !rc; i++) {
        const struct st_tensor *t = weights_at(w, i)->t;
        rc = st_writer_add(out, t->name, t->dtype, t->rank, t->dim, e);
    }
    if (!rc)
        rc = st_writer_open(out, path, e);
    while (!rc && (next = st_writer_next(out)))
        rc = write_any(x, out, weights_get(w, next->name), e);
    if (!rc)
        rc = st_writer_commit(out, e);
    st_writer_free(out);
    free(path);
    return rc ? -1 : 0;
}

static int write_files(struct export *x, const char *dir, struct err *e)
{
    const struct weights *w = x->from->weights;
    size_t n = weights_count(w), lo = 0;
    for (size_t i = 1; i <= n; i++) {
        if (i < n && weights_at(w, i)->file == weights_at(w, lo)->file)
            continue;
        if (write_file(x, dir, lo, i, e))
            return -1;
        lo = i;
    }
    return 0;
}

/* Said before gigabytes are written for nothing. */
static int check_free(const char *to, struct err *e)
{
    DIR *d = opendir(to);
    struct dirent *entry;
    bool is_taken = !d && errno != ENOENT;
    while (d && (entry = readdir(d)))
        is_taken = is_taken || (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."));
    if (d)
        closedir(d);
    return is_taken ? err_set(e, ERR_EXISTS, "%s: is there already", to) : 0;
}

int model_export_check(const struct model_dir *from, struct err *e)
{
    const struct weight *w = weights_with_bits(from->weights);
    if (from->config.n_dense > 0)
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: a model of vectors with modules 'Dense', whose weights lie in folders of "
            "their own, is not written: serve an adapter over it",
            from->path);
    if (w)
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: the tensor %.200s has numbers of less than a byte, which are not written",
            from->path, w->t->name);
    return !weights_are_packed(from->weights)
               ? 0
               : err_set(e, ERR_UNSUPPORTED,
                         "%s: its matrices are packed in few bits, which would lose what is "
                         "written into them: serve an adapter over them, or take the model they "
                         "were made of",
                         from->path);
}

int model_export(const struct model_dir *from, const struct model *m, const char *to,
                 const struct export_change *change, struct err *e)
{
    struct export x = {.from = from, .m = m, .change = change};
    if (model_export_check(from, e))
        return -1;
    char *dir = check_free(to, e) ? NULL : fs_temp_dir(to, e);
    if (!dir)
        return -1;
    x.is_transposed = xcalloc((size_t)m->n_param + 1, sizeof *x.is_transposed);
    find_transposed(&x);
    int rc = write_files(&x, dir, e) || model_dir_copy_small(from, dir, e) || made_list(dir, e) ||
                     fs_sync_dir(dir, e) || fs_rename(dir, to, e)
                 ? err_wrap(e, "%s", to)
                 : 0;
    if (rc)
        fs_remove_tree(dir, NULL);
    mem_free(x.x);
    free(x.is_transposed);
    free(dir);
    return rc;
}
