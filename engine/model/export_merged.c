/* SPDX-License-Identifier: Apache-2.0
 *
 * An adapter's product, added to the rows that are being written. The two halves of one parameter
 * are in memory at a time; an element's sum runs over the rank in order.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/model/adapter_files.h"
#include "engine/model/export.h"

struct model_merge {
    struct adapter_files files;
    const struct param *param; /* whose halves are here; NULL: nobody's */
    float *a, *b;              /* owned: [rank, k], [n, rank] */
    int64_t rank;
    float scale;
};

static bool has(void *ctx, const struct param *p)
{
    const struct model_merge *m = ctx;
    return p->lora >= 0 && m->files.at[p->lora].a;
}

static void forget(struct model_merge *m)
{
    mem_free(m->a);
    mem_free(m->b);
    m->a = m->b = NULL;
    m->param = NULL;
}

static int read_halves(struct model_merge *m, const struct param *p, struct err *e)
{
    const struct adapter_halves *h = &m->files.at[p->lora];
    if (m->param == p)
        return 0;
    forget(m);
    m->a = adapter_half_read(h->a, e);
    m->b = m->a ? adapter_half_read(h->b, e) : NULL;
    if (!m->b)
        return -1;
    m->rank = weight_rows(h->a);
    m->scale = (float)adapter_files_scale(&m->files, h);
    m->param = p;
    return 0;
}

/* sum[c] over the rank: a row of outputs' weights, or of an input's where is_transposed. */
static void product(const struct model_merge *m, bool is_transposed, int64_t row, int64_t n_col,
                    float *sum)
{
    memset(sum, 0, (size_t)n_col * sizeof *sum);
    for (int64_t r = 0; r < m->rank; r++) {
        const float *a = m->a + r * m->param->k;
        for (int64_t c = 0; c < n_col; c++)
            sum[c] +=
                is_transposed ? m->b[c * m->rank + r] * a[row] : m->b[row * m->rank + r] * a[c];
    }
}

static int fill(void *ctx, const struct param *p, bool is_transposed, int64_t row, int64_t n_row,
                float *x, struct err *e)
{
    struct model_merge *m = ctx;
    int64_t n_col = is_transposed ? p->n : p->k;
    if (read_halves(m, p, e))
        return -1;
    float *sum = try_alloc((size_t)n_col, sizeof *sum, "a row of a tensor", e);
    if (!sum)
        return -1;
    for (int64_t r = row; r < row + n_row; r++, x += n_col) {
        product(m, is_transposed, r, n_col, sum);
        for (int64_t c = 0; c < n_col; c++)
            x[c] += m->scale * sum[c];
    }
    mem_free(sum);
    return 0;
}

struct model_merge *model_merge_new(const struct model *m, const char *adapter, struct err *e)
{
    struct model_merge *g = xcalloc(1, sizeof *g);
    if (adapter_files_init(&g->files, m, adapter, e) == 0)
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
