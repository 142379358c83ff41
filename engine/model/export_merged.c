/* SPDX-License-Identifier: Apache-2.0
 *
 * An adapter's product, added to the rows that are being written, or those of a matrix that it has
 * whole in their place; where it has magnitudes a row is then brought to its own. The halves of one
 * parameter are in memory at a time; an element's sum runs over the rank in order.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/model/adapter_files.h"
#include "engine/model/export.h"
#include "engine/model/saved.h"
#include "kernels/dora.h"

struct model_merge {
    struct adapter_files files;
    const struct param *product; /* whose halves are here; NULL: nobody's */
    float *a, *b;                /* owned: [rank, k], [lora_n, rank], of each expert if any */
    float *magnitude;            /* owned: [n]; NULL: it has none */
    int64_t rank;
    float scale;
};

/* Which of the adapter's whole matrices stands for a parameter; -1: none. */
static int saved_of(const struct model_merge *m, const struct param *p)
{
    for (int i = 0; i < SAVED_COUNT; i++)
        if (m->files.saved[i] && saved_param(m->files.m, (enum saved)i) == p)
            return i;
    return -1;
}

static bool has(void *ctx, const struct param *p)
{
    const struct model_merge *m = ctx;
    int64_t at;
    if (saved_of(m, p) >= 0)
        return true;
    const struct param *product = adapter_product_of(m->files.m, p, &at);
    return product && adapter_halves_are_there(&m->files.at[product->lora]);
}

static void forget(struct model_merge *m)
{
    mem_free(m->a);
    mem_free(m->b);
    mem_free(m->magnitude);
    m->a = m->b = m->magnitude = NULL;
    m->product = NULL;
}

static int read_halves(struct model_merge *m, const struct param *product, struct err *e)
{
    const struct adapter_halves *h = &m->files.at[product->lora];
    if (m->product == product)
        return 0;
    forget(m);
    m->a = adapter_half_read(&m->files, h, false, e);
    m->b = m->a ? adapter_half_read(&m->files, h, true, e) : NULL;
    if (m->b && h->all.magnitude)
        m->magnitude = adapter_magnitude_read(h, e);
    if (!m->b || (h->all.magnitude && !m->magnitude))
        return -1;
    m->rank = adapter_halves_rank(&m->files, h);
    m->scale = (float)adapter_files_scale(&m->files, h);
    m->product = product;
    return 0;
}

/* What one parameter has of its product's halves. */
struct halves {
    const float *a, *b; /* borrowed: [rank, k], [n, rank] */
    int64_t rank, k;
};

static struct halves halves_of(const struct model_merge *m, const struct param *p, int64_t at)
{
    int64_t n_half = m->product->n_half ? m->product->n_half : 1;
    int64_t expert = at % n_half, part = at / n_half;
    return (struct halves){.a = m->a + expert * m->rank * p->k,
                           .b = m->b + (expert * m->product->lora_n + part * p->n) * m->rank,
                           .rank = m->rank,
                           .k = p->k};
}

/* sum[c] over the rank: a row of outputs' weights, or of an input's where is_transposed. */
static void product(const struct halves *h, bool is_transposed, int64_t row, int64_t n_col,
                    float *sum)
{
    memset(sum, 0, (size_t)n_col * sizeof *sum);
    for (int64_t r = 0; r < h->rank; r++) {
        const float *a = h->a + r * h->k;
        for (int64_t c = 0; c < n_col; c++)
            sum[c] +=
                is_transposed ? h->b[c * h->rank + r] * a[row] : h->b[row * h->rank + r] * a[c];
    }
}

static void bring_to(float magnitude, float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    float gain = dora_gain_of(magnitude, (float)sqrt(sum));
    for (int64_t i = 0; i < n; i++)
        x[i] *= gain;
}

static int fill(void *ctx, const struct param *p, bool is_transposed, int64_t row, int64_t n_row,
                float *x, struct err *e)
{
    struct model_merge *m = ctx;
    int64_t n_col = is_transposed ? p->n : p->k, at = 0;
    int saved = saved_of(m, p);
    if (saved >= 0) /* no family has these by inputs */
        return adapter_saved_read(&m->files, (enum saved)saved, row, n_row, x, e);
    if (read_halves(m, adapter_product_of(m->files.m, p, &at), e))
        return -1;
    struct halves h = halves_of(m, p, at);
    float *sum = try_alloc((size_t)n_col, sizeof *sum, "a row of a tensor", e);
    if (!sum)
        return -1;
    for (int64_t r = row; r < row + n_row; r++, x += n_col) {
        product(&h, is_transposed, r, n_col, sum);
        for (int64_t c = 0; c < n_col; c++)
            x[c] += m->scale * sum[c];
        if (m->magnitude)
            bring_to(m->magnitude[r], x, n_col);
    }
    mem_free(sum);
    return 0;
}

/* A model that ties the two has one matrix for both. */
static int check_tied(const struct model_merge *g, struct err *e)
{
    return !g->files.m->cfg.is_tied || g->files.saved[SAVED_EMBED] == g->files.saved[SAVED_HEAD]
               ? 0
               : err_set(e, ERR_UNSUPPORTED,
                         "the model ties its lm_head to the table of tokens, and the adapter has "
                         "one of them for itself (modules_to_save): it is served beside the model, "
                         "and not merged into it");
}

/* A row's length is known once all of it is there. */
static int check_rows(const struct model_merge *g, struct err *e)
{
    return !g->files.config.is_dora || !spec_is_transposed(spec_of(g->files.m->cfg.family))
               ? 0
               : err_set(
                     e, ERR_UNSUPPORTED,
                     "use_dora: the model's files have weights by inputs: the adapter is served "
                     "beside the model, and not merged into it");
}

struct model_merge *model_merge_new(const struct model *m, const char *adapter, struct err *e)
{
    struct model_merge *g = xcalloc(1, sizeof *g);
    if (adapter_files_init(&g->files, m, adapter, e) == 0 && check_tied(g, e) == 0 &&
        check_rows(g, e) == 0)
        return g;
    err_wrap(e, "%s", adapter);
    model_merge_free(g);
    return NULL;
}

void model_merge_free(struct model_merge *g)
{
    if (!g)
        return;
    forget(g);
    adapter_files_release(&g->files);
    free(g);
}

struct export_change model_merge_change(struct model_merge *g)
{
    return (struct export_change){.has = has, .fill = fill, .ctx = g};
}

int model_export_merged(const struct model_dir *from, const struct model *m, const char *adapter,
                        const char *to, struct err *e)
{
    struct model_merge *g = model_merge_new(m, adapter, e);
    struct export_change change = model_merge_change(g);
    int rc = g ? model_export(from, m, to, &change, e) : -1;
    model_merge_free(g);
    return rc;
}
