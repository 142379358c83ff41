/* SPDX-License-Identifier: Apache-2.0
 *
 * model_load: every tensor of the files goes through a small buffer of a compute thread into its
 * panels, so the packed parameters are the only copy there ever is. Work is cut into pieces of some
 * panels; a piece reads its rows and packs them while they are in cache.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/sha256.h"
#include "engine/load/weights.h"
#include "engine/model/formats.h"
#include "engine/model/model.h"
#include "engine/model/part.h"
#include "engine/model/stored.h"
#include "kernels/coded.h"
#include "kernels/linear.h"

enum { PIECE_BYTES = 1 << 20, REST_BYTES = 10 /* "+q8+kint8" */ };

/* A compute thread's way to a device that the host cannot write to: pieces are read here, go over
 * as they are, and are packed there, by the device's own order of numbers. */
struct lane {
    struct stream *stream; /* owned */
    char *at;              /* owned: host memory of the device's */
    void *there;           /* owned: as many bytes of the device */
    size_t bytes;
};

struct piece {
    int32_t param;
    int64_t panel_lo, panel_hi;
};

struct load {
    struct model *m;
    const struct model_options *opt;
    struct weights *w;          /* borrowed */
    const struct weight **from; /* owned: [n_param] */
    bool *transposed;           /* owned: [n_param] */
    struct piece *piece;        /* owned */
    int64_t n_piece;
    struct lane *lane; /* owned: one for each thread; NULL: parameters are written in place */
    int n_lane;
    atomic_int_fast64_t done_bytes;
    atomic_bool failed;
    struct err *err; /* written by the one that set failed */
};

static int fail(struct load *l, const struct err *e)
{
    if (!atomic_exchange(&l->failed, true))
        *l->err = *e;
    return -1;
}

static int find_tensor(struct load *l, const struct param *p, bool transposed, struct err *e)
{
    int64_t dim[3];
    int rank = stored_shape(p, transposed, dim);
    l->transposed[p->index] = transposed;
    return stored_want(l->w, &l->m->cfg, p->name, rank, dim, &l->from[p->index], e);
}

static int find_all(struct load *l, struct err *e)
{
    struct spec_walk w = spec_walk_begin(&l->m->cfg);
    const struct param *p = l->m->param;
    for (const struct spec_row *r; (r = spec_walk_next(&w)); p++)
        if (find_tensor(l, p, r->is_transposed, e))
            return -1;
    return stored_check_all(l->w, l->from, l->m->n_param, e);
}

static int64_t piece_panels(const struct load *l, const struct param *p)
{
    size_t row = (size_t)p->k * sizeof(float);
    int64_t fit = (int64_t)(PIECE_BYTES / (row * K_NR));
    int64_t together = weight_rows_together(l->from[p->index]) / K_NR;
    if (p->is_vector || l->transposed[p->index])
        return linear_panels(p->n); /* read whole */
    fit = fit > together ? fit : together;
    return fit > 0 ? fit : 1;
}

static void cut_pieces(struct load *l)
{
    const struct param *stored = model_stored(l->m);
    int64_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        n = 0;
        for (int32_t i = 0; i < l->m->n_param; i++) {
            int64_t step = piece_panels(l, &stored[i]), all = linear_panels(stored[i].n);
            for (int64_t lo = 0; lo < all; lo += step, n++)
                if (pass)
                    l->piece[n] = (struct piece){i, lo, lo + step < all ? lo + step : all};
        }
        if (!pass)
            l->piece = xcalloc((size_t)n + 1, sizeof *l->piece);
    }
    l->n_piece = n;
}

/* What of a tensor is here: all of it, or a rank's part. */
static struct part part_here(const struct load *l, int32_t i)
{
    static const struct param_share all = {.cut = PARAM_WHOLE};
    return part_of(&l->m->param[i], l->m->share ? &l->m->share[i] : &all, &l->m->ranks);
}

/* A block of a tensor in the files: runs of rows by runs of columns, of which one is a single one.
 */
struct block {
    struct part_run row[PART_RUN_MAX], col[PART_RUN_MAX];
    int n_row, n_col;
};

/* Outputs [lo, hi) of the part, as they lie in the file. */
static struct block block_of(const struct part *p, bool transposed, int64_t lo, int64_t hi)
{
    struct block b = {.n_row = 1, .n_col = 1};
    if (transposed) {
        b.row[0] = p->input;
        b.n_col = part_cut(p, lo, hi, b.col);
    } else {
        b.n_row = part_cut(p, lo, hi, b.row);
        b.col[0] = p->input;
    }
    return b;
}

static int64_t sum_runs(const struct part_run *run, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += run[i].n;
    return sum;
}

/* Of a tensor, and the type that its numbers are read as: one of codes where they are packed in
 * that. */
struct source {
    const struct weight *w;
    enum k_type type;
};

static struct source source_of(const struct weight *w, const struct param *p)
{
    return (struct source){w, formats_keep_codes(p, w) ? weight_coded(w) : weight_k_type(w)};
}

static size_t source_bytes(const struct source *s, int64_t n)
{
    return coded_has(s->type) ? (size_t)coded_bytes(s->type, n) : (size_t)n * k_type_bytes(s->type);
}

/* Columns of a row, or of several that are wanted whole; *to moves behind them. */
static int read_columns(const struct source *s, int64_t row, const struct part_run *col, char **to,
                        struct err *e)
{
    char *dst = *to;
    *to += source_bytes(s, col->n);
    if (!coded_has(s->type))
        return weight_read_at(s->w, row, col->lo, col->n, dst, e);
    int64_t block = weight_coded_inputs(s->w);
    if (col->lo % block || col->n % block)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %s: its groups of %d inputs would be cut between ranks: give another "
                       "number of ranks, or --quantize bf16",
                       weight_file_name(s->w), s->w->t->name, (int)block);
    return weight_read_coded(s->w, row, col->lo, col->n, dst, e);
}

/* Reads a block, dense, row by row where rows are not wanted whole. */
static int read_block(const struct source *s, const struct block *b, char *dst, struct err *e)
{
    int64_t len = weight_row_len(s->w);
    for (int i = 0; i < b->n_row; i++) {
        struct part_run all = {0, b->row[i].n * len};
        if (b->n_col == 1 && b->col[0].n == len) {
            if (read_columns(s, b->row[i].lo, &all, &dst, e))
                return -1;
            continue;
        }
        for (int64_t r = b->row[i].lo; r < b->row[i].lo + b->row[i].n; r++)
            for (int c = 0; c < b->n_col; c++)
                if (read_columns(s, r, &b->col[c], &dst, e))
                    return -1;
    }
    return 0;
}

static void report(struct load *l, int64_t bytes)
{
    int64_t done = atomic_fetch_add(&l->done_bytes, bytes) + bytes;
    if (l->opt->progress)
        l->opt->progress(l->opt->progress_ctx, (uint64_t)done,
                         weights_bytes(l->w) / (uint64_t)l->m->ranks.size);
}

/* ---- where a piece is written -------------------------------------------------------------- */

static int lanes_init(struct load *l, struct err *e)
{
    if (device_reads_host(l->m->device))
        return 0;
    l->n_lane = l->opt->pool ? pool_size(l->opt->pool) : 1;
    l->lane = xcalloc((size_t)l->n_lane, sizeof *l->lane);
    for (int i = 0; i < l->n_lane; i++) {
        l->lane[i].stream = stream_new(l->m->device, e);
        if (!l->lane[i].stream)
            return -1;
    }
    return 0;
}

static void lane_clear(struct load *l, struct lane *n)
{
    device_host_free(l->m->device, n->at);
    device_mem_free(l->m->device, n->there);
    n->at = NULL;
    n->there = NULL;
    n->bytes = 0;
}

static void lanes_release(struct load *l)
{
    for (int i = 0; i < l->n_lane; i++) {
        lane_clear(l, &l->lane[i]);
        stream_free(l->lane[i].stream);
    }
    free(l->lane);
}

static void *lane_room(struct load *l, struct lane *n, size_t bytes, struct err *e)
{
    if (n->at && bytes <= n->bytes)
        return n->at;
    lane_clear(l, n);
    n->at = device_host_alloc(l->m->device, bytes, "a piece of a tensor", e);
    n->there = n->at ? device_alloc(l->m->device, bytes, "a piece of a tensor", e) : NULL;
    n->bytes = n->there ? bytes : 0;
    return n->there ? n->at : NULL;
}

/* ---- pieces -------------------------------------------------------------------------------- */

/* Numbers of a file that a narrower format would make infinite. */
static int check_most(const struct param *p, enum k_type type, const void *src, int64_t n,
                      struct err *e)
{
    float most = k_format(p->w.type)->most;
    for (int64_t i = 0; i < n && most > 0 && type != p->w.type; i++) {
        uint16_t half = type == K_F32 ? 0 : ((const uint16_t *)src)[i];
        float v = type == K_F32 ? ((const float *)src)[i] : bf16_to_f32(half);
        if (v > most || v < -most)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: %g is more than %s holds, %g: load it as it is stored", p->name,
                           (double)v, k_format(p->w.type)->name, (double)most);
    }
    return 0;
}

static int pack_matrix(struct load *l, const struct piece *c, struct lane *n, struct err *e)
{
    const struct param *p = &model_stored(l->m)[c->param];
    bool transposed = l->transposed[c->param];
    struct part part = part_here(l, c->param);
    int64_t hi = c->panel_hi * K_NR < p->n ? c->panel_hi * K_NR : p->n;
    struct block b = block_of(&part, transposed, c->panel_lo * K_NR, hi);
    int64_t rows = sum_runs(b.row, b.n_row), cols = sum_runs(b.col, b.n_col);
    struct source from = source_of(l->from[c->param], p);
    ASSERT(!p->order || cols == p->order->k); /* ranks do not cut an order */
    size_t bytes = source_bytes(&from, rows * cols);
    void *src = n ? lane_room(l, n, bytes, e) : try_alloc(1, bytes, "a piece of a tensor", e);
    struct k_weight_pack a = {.src = n ? n->there : src,
                              .src_type = from.type,
                              .ld_src = cols,
                              .transposed = transposed,
                              .w = p->w,
                              .panel_lo = c->panel_lo,
                              .n_src = transposed ? cols : rows};
    int rc = src ? read_block(&from, &b, src, e) : -1;
    if (!rc)
        rc = check_most(p, a.src_type, src, rows * cols, e);
    if (!rc && n) {
        stream_copy(n->stream, n->there, src, bytes, COPY_TO_DEVICE);
        stream_launch(n->stream, K_weight_pack, &a, sizeof a);
        rc = stream_sync(n->stream, e);
    } else if (!rc) {
        kernel_run(device_kernels(l->m->device), K_weight_pack, &a, NULL);
    }
    if (!n)
        mem_free(src);
    report(l, (int64_t)bytes);
    return rc;
}

static int read_vector(struct load *l, const struct piece *c, struct lane *n, struct err *e)
{
    const struct param *p = &model_stored(l->m)[c->param];
    struct part part = part_here(l, c->param);
    size_t bytes = (size_t)p->n * sizeof *p->vec;
    int64_t each = p->n_tap ? p->n_tap : 1; /* elements in a row of the file's */
    float *all = n ? lane_room(l, n, bytes, e) : p->vec, *to = all;
    if (!all)
        return -1;
    if (n)
        memset(all, 0, bytes);
    for (int i = 0; i < part.n_output && !part.is_zero; i++) {
        const struct part_run *run = &part.output[i];
        if (weight_read_f32(l->from[c->param], run->lo / each, run->n / each, to, e))
            return -1;
        to += run->n;
    }
    if (n) {
        stream_copy(n->stream, p->vec, all, bytes, COPY_TO_DEVICE);
        if (stream_sync(n->stream, e))
            return -1;
    }
    report(l, p->n / each * (int64_t)weight_row_bytes(l->from[c->param]));
    return 0;
}

static void run_pieces(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct load *l = ctx;
    struct lane *n = l->lane ? &l->lane[thread] : NULL;
    for (int64_t i = lo; i < hi && !atomic_load(&l->failed); i++) {
        const struct piece *c = &l->piece[i];
        struct err e = ERR_INIT;
        if (l->m->param[c->param].is_vector ? read_vector(l, c, n, &e) : pack_matrix(l, c, n, &e)) {
            fail(l, &e);
            return;
        }
    }
}

static int run_all(struct load *l, struct err *e)
{
    l->err = e;
    if (lanes_init(l, e))
        return -1;
    if (!l->m->part)
        weights_prefetch(l->w);
    if (l->opt->pool)
        pool_run(l->opt->pool, run_pieces, l, l->n_piece, 1);
    else
        run_pieces(l, 0, l->n_piece, 0);
    return atomic_load(&l->failed) ? -1 : 0;
}

/* What gives other numbers over the same matrices: products that multiply codes, keys and values in
 * another format than that of the rows. */
static void name_rest(const struct model *m, char text[REST_BYTES])
{
    bool is_q8 = false, is_odd = m->kv_type != model_pick_kv(m, -1);
    for (int32_t i = 0; i < m->n_param; i++)
        is_q8 = is_q8 || (!m->param[i].is_vector && m->param[i].reads_q8);
    snprintf(text, REST_BYTES, "%s%s%s", is_q8 ? "+q8" : "", is_odd ? "+k" : "",
             is_odd ? k_format(m->kv_type)->name : "");
}

/* What the matrices are packed in: the name of the one type, or a digest of each one's; and the
 * rest. */
static void name_types(const struct model *m, struct base_id *id)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES], rest[REST_BYTES];
    const struct param *first = NULL;
    struct sha256 all;
    bool is_one = true;
    sha256_init(&all);
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        if (p->is_vector)
            continue;
        first = first ? first : p;
        is_one = is_one && p->w.type == first->w.type;
        sha256_add(&all, p->name, strlen(p->name) + 1);
        const char *format = k_format(p->w.type)->name;
        sha256_add(&all, format, strlen(format) + 1);
    }
    sha256_end(&all, digest);
    name_rest(m, rest);
    if (is_one)
        snprintf(id->types, sizeof id->types, "%s%s", first ? k_format(first->w.type)->name : "",
                 rest);
    else
        snprintf(id->types, sizeof id->types, "mixed-%.8s%s", sha256_text(digest, text), rest);
}

/* The number by which a layer's output is multiplied; 1, as its class begins, where the files have
 * none. */
static int read_scales(struct load *l, struct err *e)
{
    const int64_t one = 1;
    struct model *m = l->m;
    const struct weight *w;
    for (int64_t i = 0; i < m->cfg.n_layer && m->cfg.has_layer_scale; i++) {
        float *to = &m->layer[i].out_scale;
        char name[64];
        snprintf(name, sizeof name, "layers.%lld.layer_scalar", (long long)i);
        if (!stored_has(l->w, &m->cfg, name))
            continue;
        if (stored_want(l->w, &m->cfg, name, 1, &one, &w, e) || weight_read_f32(w, 0, 1, to, e))
            return -1;
        if (!isfinite(*to) || *to == 0)
            return err_set(e, ERR_BAD_INPUT, "%s: %g is no scale of a layer", name, (double)*to);
    }
    return 0;
}

struct model *model_load(const struct model_dir *dir, const struct model_options *o,
                         struct device *d, struct err *e)
{
    struct load l = {.opt = o, .w = dir->weights};
    struct model_options opt = *o;
    int rc = -1;
    opt.files = dir->weights;
    l.m = model_new(&dir->config, &opt, d, e);
    if (!l.m)
        return NULL;
    l.from = xcalloc((size_t)l.m->n_param + 1, sizeof *l.from);
    l.transposed = xcalloc((size_t)l.m->n_param + 1, sizeof *l.transposed);
    name_types(l.m, &l.m->base);
    if (!base_id_read(dir, &l.m->base, e) && !find_all(&l, e) && !read_scales(&l, e)) {
        cut_pieces(&l);
        rc = run_all(&l, e);
    }
    lanes_release(&l);
    free(l.from);
    free(l.transposed);
    free(l.piece);
    if (rc) {
        err_wrap(e, "%s", dir->path);
        model_free(l.m);
        return NULL;
    }
    return l.m;
}
