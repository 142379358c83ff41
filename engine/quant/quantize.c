/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers are taken in runs whose inputs' sums fit: the texts go through the model, then each of the
 * run's matrices is rounded, by tiles of rows over the pool. Matrices that read one input share its
 * factor.
 */
#include "engine/quant/quantize.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "engine/base/fs.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/quant/factor.h"
#include "engine/quant/matrix.h"
#include "engine/quant/quant_config.h"
#include "engine/quant/shards.h"
#include "engine/quant/tap.h"

enum factor_state { FACTOR_NONE, FACTOR_MADE, FACTOR_FAILED };

/* What a thread rounds rows in. */
struct lane {
    float *x, *behind, *scale; /* owned: [QUANT_ROWS, k] and groups */
    float *aim, *weight;       /* owned: [k] */
    int8_t *code;              /* owned */
    uint32_t *word;            /* owned */
    double error, of;          /* of the rows it has done */
};

struct job {
    struct quant_plan *plan;
    const struct quant_options *opt;
    struct shards shards;
    struct tap tap;
    bool *is_wanted;           /* owned: [n_param] whose inputs the tap sees */
    enum factor_state *factor; /* owned: [n_param], by the first that reads the input */
    float *diagonal;           /* owned: [k_max] */
    int64_t k_max;
    struct lane *lane; /* owned: [n_lane] */
    int n_lane;
    size_t n_done;
    /* the matrix at hand */
    struct quant_entry *entry;
    struct quant_matrix matrix;
    atomic_bool failed;
    struct err *err; /* written by the one that set failed */
};

/* ---- rows of a matrix ---------------------------------------------------------------------- */

static int check_finite(const struct quant_entry *t, const float *x, int64_t n, struct err *e)
{
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] - x[i] == 0))
            return err_set(e, ERR_BAD_INPUT, "%s: %.200s: it has a number that is not finite",
                           weight_file_name(t->from), t->from->t->name);
    return 0;
}

static int round_tile(struct job *j, struct lane *at, int64_t row, int64_t n, struct err *e)
{
    const struct quant_entry *t = j->entry;
    struct quant_rows rows = {.x = at->x,
                              .n = n,
                              .code = at->code,
                              .scale = at->scale,
                              .behind = at->behind,
                              .aim = at->aim,
                              .weight = at->weight};
    if (weight_read_f32(t->from, row, n, at->x, e) || check_finite(t, at->x, n * t->p->k, e))
        return -1;
    quant_matrix_rows(&j->matrix, &rows);
    quant_pack(j->plan->target, at->code, n * t->p->k, at->word);
    at->error += rows.error;
    for (int64_t i = 0; i < n * t->p->k; i++)
        at->of += (double)at->x[i] * (double)at->x[i];
    return shards_put_rows(&j->shards, t, row, n, at->word, at->scale, e);
}

static void round_tiles(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct job *j = ctx;
    for (int64_t i = lo; i < hi && !atomic_load(&j->failed); i++) {
        int64_t row = i * QUANT_ROWS, left = j->entry->p->n - row;
        struct err e = ERR_INIT;
        if (round_tile(j, &j->lane[thread], row, left < QUANT_ROWS ? left : QUANT_ROWS, &e) &&
            !atomic_exchange(&j->failed, true))
            *j->err = e;
    }
}

/* The factor of what the entry's matrix reads; NULL: nothing was seen of it, or it has none. */
static const float *factor_of(struct job *j, const struct quant_entry *t)
{
    int32_t owner = j->opt->texts ? j->tap.input_of[t->p->index] : -1;
    struct tap_input *in = owner < 0 ? NULL : &j->tap.input[owner];
    if (!in || !in->sum)
        return NULL;
    if (j->factor[owner] == FACTOR_NONE)
        j->factor[owner] =
            quant_factor(in->sum, j->diagonal, in->k, j->opt->pool) ? FACTOR_FAILED : FACTOR_MADE;
    return j->factor[owner] == FACTOR_MADE ? in->sum : NULL;
}

static enum k_type scale_type(const struct quant_plan *p, const struct quant_entry *t)
{
    enum st_dtype d = quant_scale_dtype(p, t);
    return d == ST_F32 ? K_F32 : d == ST_BF16 ? K_BF16 : K_F16;
}

static int round_matrix(struct job *j, struct quant_entry *t, struct err *e)
{
    j->entry = t;
    j->err = e;
    j->matrix = (struct quant_matrix){.target = j->plan->target,
                                      .scale_type = scale_type(j->plan, t),
                                      .k = t->p->k,
                                      .group = quant_group(j->plan, t),
                                      .r = factor_of(j, t)};
    for (int i = 0; i < j->n_lane; i++)
        j->lane[i].error = j->lane[i].of = 0;
    pool_run(j->opt->pool, round_tiles, j, (t->p->n + QUANT_ROWS - 1) / QUANT_ROWS, 1);
    if (atomic_load(&j->failed))
        return -1;
    t->is_seen = j->matrix.r != NULL;
    for (int i = 0; i < j->n_lane; i++) {
        t->error += j->lane[i].error;
        t->of += j->lane[i].of;
    }
    if (t->is_seen)
        t->of = j->tap.output[t->p->index];
    if (j->opt->progress)
        j->opt->progress(j->opt->ctx, ++j->n_done, j->plan->entry.n);
    return 0;
}

/* ---- runs of layers ------------------------------------------------------------------------ */

/* Behind the entries from lo on whose layers' sums fit; all of the first one's layer at least. */
static size_t run_end(const struct job *j, size_t lo)
{
    size_t most = j->opt->sum_bytes ? j->opt->sum_bytes : QUANT_SUM_BYTES, bytes = 0, end = lo;
    const struct quant_entry *t = j->plan->entry.at;
    for (size_t i = lo; i < j->plan->entry.n; i++) {
        if (i > lo && t[i].layer != t[i - 1].layer)
            end = i;
        bytes += t[i].is_shared ? 0 : (size_t)(t[i].p->k * t[i].p->k) * sizeof(float);
        if (bytes > most && end > lo)
            return end;
    }
    return j->plan->entry.n;
}

static int see(struct job *j, size_t lo, size_t hi, struct err *e)
{
    for (int32_t i = 0; i < j->plan->shape->n_param; i++) {
        j->is_wanted[i] = false;
        j->factor[i] = FACTOR_NONE;
    }
    for (size_t i = lo; i < hi; i++)
        j->is_wanted[j->plan->entry.at[i].p->index] = true;
    return tap_run(&j->tap, j->opt->texts, e);
}

static int round_all(struct job *j, struct err *e)
{
    for (size_t lo = 0, hi; lo < j->plan->entry.n; lo = hi) {
        hi = j->opt->texts ? run_end(j, lo) : j->plan->entry.n;
        if (j->opt->texts && see(j, lo, hi, e))
            return -1;
        for (size_t i = lo; i < hi; i++)
            if (round_matrix(j, &j->plan->entry.at[i], e))
                return -1;
    }
    return 0;
}

/* ---- a job --------------------------------------------------------------------------------- */

static int lane_init(struct lane *at, const struct quant_plan *p, int64_t k, struct err *e)
{
    static const char what[] = "rows of a matrix";
    size_t n = (size_t)(QUANT_ROWS * k), n_scale;
    at->x = try_alloc(n, sizeof *at->x, what, e);
    at->behind = at->x ? try_alloc(n, sizeof *at->behind, what, e) : NULL;
    at->aim = at->behind ? try_alloc((size_t)k, sizeof *at->aim, what, e) : NULL;
    at->weight = at->aim ? try_alloc((size_t)k, sizeof *at->weight, what, e) : NULL;
    n_scale = p->group ? n / (size_t)p->group : QUANT_ROWS;
    at->scale = at->weight ? try_alloc(n_scale, sizeof *at->scale, what, e) : NULL;
    at->code = at->scale ? try_alloc(n, sizeof *at->code, what, e) : NULL;
    at->word = at->code ? try_alloc(n * (size_t)p->target->bits / 8, 1, what, e) : NULL;
    return at->word ? 0 : -1;
}

static int job_init(struct job *j, struct err *e)
{
    size_t n = (size_t)j->plan->shape->n_param;
    for (size_t i = 0; i < j->plan->entry.n; i++)
        if (j->plan->entry.at[i].p->k > j->k_max)
            j->k_max = j->plan->entry.at[i].p->k;
    j->n_lane = pool_size(j->opt->pool);
    j->lane = xcalloc((size_t)j->n_lane, sizeof *j->lane);
    j->is_wanted = xcalloc(n, sizeof *j->is_wanted);
    j->factor = xcalloc(n, sizeof *j->factor);
    j->diagonal = try_alloc((size_t)j->k_max, sizeof *j->diagonal, "a diagonal", e);
    if (!j->diagonal)
        return -1;
    for (int i = 0; i < j->n_lane; i++)
        if (lane_init(&j->lane[i], j->plan, j->k_max, e))
            return -1;
    return j->opt->texts ? tap_init(&j->tap, j->opt->model, j->opt->stream, j->is_wanted, e) : 0;
}

static void job_release(struct job *j)
{
    for (int i = 0; j->lane && i < j->n_lane; i++) {
        mem_free(j->lane[i].x);
        mem_free(j->lane[i].behind);
        mem_free(j->lane[i].aim);
        mem_free(j->lane[i].weight);
        mem_free(j->lane[i].scale);
        mem_free(j->lane[i].code);
        mem_free(j->lane[i].word);
    }
    if (j->opt->texts && j->tap.model)
        tap_release(&j->tap);
    shards_release(&j->shards);
    free(j->lane);
    free(j->is_wanted);
    free(j->factor);
    mem_free(j->diagonal);
}

int quantize(struct quant_plan *p, const struct model_dir *from, const char *to,
             const struct quant_options *o, uint64_t *bytes, struct err *e)
{
    struct job j = {.plan = p, .opt = o};
    struct stat st;
    if (stat(to, &st) == 0 || errno != ENOENT)
        return err_set(e, ERR_EXISTS, "%s: is there already", to);
    char *dir = fs_temp_dir(to, e);
    if (!dir)
        return -1;
    int rc = shards_open(&j.shards, p, from, dir, e) || job_init(&j, e) ||
                     model_dir_copy_small(from, dir, e) || quant_config_write(p, from, dir, e) ||
                     shards_copy(&j.shards, e) || round_all(&j, e) ||
                     shards_commit(&j.shards, dir, bytes, e) || made_list(dir, e) ||
                     fs_sync_dir(dir, e) || fs_rename(dir, to, e)
                 ? err_wrap(e, "%s", to)
                 : 0;
    job_release(&j);
    if (rc)
        fs_remove_tree(dir, NULL);
    free(dir);
    return rc;
}
