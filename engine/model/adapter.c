/* SPDX-License-Identifier: Apache-2.0
 *
 * The halves of all products share one block; B as the panels that the product wants, since it is
 * used a thousand times for each load. A product whose halves the file holds as bf16 stays bf16,
 * which changes no bit and halves what a step reads of it; all others are f32. What the files
 * claim was checked when they were opened (adapter_files.h); then come sizes; then the numbers are
 * read.
 */
#include "engine/model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/model/adapter_files.h"
#include "kernels/float16.h"
#include "kernels/linear.h"

enum { ALIGN_BYTES = 64 };

struct product {
    int64_t rank; /* 0: none here */
    bool is_bf16; /* f32 else */
    void *a;      /* borrowed from the block: [rank, k] */
    void *b;      /* borrowed from the block: [n, rank], as panels */
    float scale;
};

struct adapter {
    atomic_size_t n_ref;
    uint64_t version;
    struct device *device;         /* borrowed */
    struct adapter_budget *budget; /* borrowed; NULL until its bytes are taken */
    void *block;                   /* owned: device memory */
    size_t bytes;
    int64_t rank, created;
    int32_t n_lora;
    char name[ADAPTER_NAME_BYTES];
    struct product at[]; /* [n_lora] */
};

/* ---- into memory --------------------------------------------------------------------------- */

/* Cuts the block, or only measures where there is none. */
static void *cut(const struct adapter *a, size_t *at, int64_t rows, int64_t cols, size_t each)
{
    char *p = a->block ? (char *)a->block + *at : NULL;
    size_t bytes = (size_t)(rows * cols) * each; /* of a file that holds as many */
    *at += (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return p;
}

static bool is_bf16(const struct adapter_halves *h)
{
    return weight_k_type(h->a) == K_BF16 && weight_k_type(h->b) == K_BF16;
}

static size_t lay_out(struct adapter *a, const struct adapter_files *f)
{
    size_t at = 0;
    for (int32_t i = 0; i < a->n_lora; i++) {
        const struct adapter_halves *h = &f->at[i];
        struct product *p = &a->at[i];
        if (!h->a)
            continue;
        p->rank = weight_rows(h->a);
        p->is_bf16 = is_bf16(h);
        size_t each = p->is_bf16 ? sizeof(k_bf16) : sizeof(float);
        p->scale = (float)adapter_files_scale(f, h);
        p->a = cut(a, &at, p->rank, h->param->k, each);
        p->b = cut(a, &at, linear_panels(h->param->n) * K_NR, p->rank, each);
        a->rank = p->rank > a->rank ? p->rank : a->rank;
    }
    return at;
}

static int send_bf16(struct stream *s, void *to, const float *x, int64_t n, struct err *e)
{
    k_bf16 *narrow = try_alloc((size_t)n, sizeof *narrow, "an adapter", e);
    if (!narrow)
        return -1;
    for (int64_t i = 0; i < n; i++)
        narrow[i] = bf16_from_f32(x[i]);
    stream_copy(s, to, narrow, (size_t)n * sizeof *narrow, COPY_TO_DEVICE);
    int rc = stream_sync(s, e);
    mem_free(narrow);
    return rc;
}

static int send(struct stream *s, bool is_bf16, void *to, const float *x, int64_t n, struct err *e)
{
    if (is_bf16)
        return send_bf16(s, to, x, n, e);
    stream_copy(s, to, x, (size_t)n * sizeof *x, COPY_TO_DEVICE);
    return stream_sync(s, e);
}

static int read_a(struct stream *s, const struct weight *w, const struct product *p, struct err *e)
{
    float *x = adapter_half_read(w, e);
    int rc = x ? send(s, p->is_bf16, p->a, x, weight_rows(w) * weight_row_len(w), e) : -1;
    mem_free(x);
    return rc;
}

static int read_b(struct stream *s, const struct weight *w, const struct product *p, struct err *e)
{
    int64_t n = weight_rows(w), rank = weight_row_len(w), size = linear_panels(n) * K_NR * rank;
    float *x = adapter_half_read(w, e);
    float *panels = x ? try_alloc((size_t)size, sizeof *panels, w->t->name, e) : NULL;
    for (int64_t o = 0; o < n && panels; o++)
        for (int64_t r = 0; r < rank; r++)
            panels[o / K_NR * K_NR * rank + linear_f32_at(o % K_NR, r)] = x[o * rank + r];
    int rc = panels ? send(s, p->is_bf16, p->b, panels, size, e) : -1;
    mem_free(panels);
    mem_free(x);
    return rc;
}

static int read_all(struct adapter *a, const struct adapter_files *f, struct err *e)
{
    struct stream *s = stream_new(a->device, e);
    int rc = s ? 0 : -1;
    for (int32_t i = 0; i < a->n_lora && !rc; i++) {
        const struct adapter_halves *h = &f->at[i];
        if (h->a && (read_a(s, h->a, &a->at[i], e) || read_b(s, h->b, &a->at[i], e)))
            rc = -1;
    }
    if (s)
        stream_free(s);
    return rc;
}

static int check_rank(const struct adapter *a, const struct adapter_options *o, struct err *e)
{
    if (a->rank <= o->rank_max)
        return 0;
    return err_set(e, ERR_TOO_LARGE, "%s: rank %lld: this engine takes up to %lld",
                   PEFT_CONFIG_NAME, (long long)a->rank, (long long)o->rank_max);
}

/* Takes the adapter's bytes out of the budget; adapter_unref gives them back. */
static int take_bytes(struct adapter *a, struct adapter_budget *budget, struct err *e)
{
    size_t used = atomic_load(&budget->bytes);
    do {
        if (used > budget->bytes_max || a->bytes > budget->bytes_max - used)
            return err_set(e, ERR_TOO_LARGE,
                           "%s: %zu bytes of adapter: %zu of %zu are taken by others",
                           PEFT_TENSORS_NAME, a->bytes, used, budget->bytes_max);
    } while (!atomic_compare_exchange_weak(&budget->bytes, &used, used + a->bytes));
    a->budget = budget;
    return 0;
}

static struct adapter *make(const struct model *m, const struct adapter_files *f,
                            const struct adapter_options *o, struct err *e)
{
    struct adapter *a = xcalloc(1, sizeof *a + (size_t)m->n_lora * sizeof *a->at);
    ASSERT(o->version > 0);
    atomic_init(&a->n_ref, 1);
    a->version = o->version;
    a->device = m->device;
    a->n_lora = m->n_lora;
    a->created = (int64_t)time(NULL);
    snprintf(a->name, sizeof a->name, "%s", o->name);
    a->bytes = lay_out(a, f);
    if (check_rank(a, o, e) || take_bytes(a, o->budget, e))
        goto fail;
    a->block = device_alloc(m->device, a->bytes, "an adapter", e);
    if (!a->block)
        goto fail;
    lay_out(a, f);
    if (read_all(a, f, e))
        goto fail;
    return a;
fail:
    adapter_unref(a);
    return NULL;
}

struct adapter *adapter_load(const struct model *m, const char *dir,
                             const struct adapter_options *o, struct err *e)
{
    struct adapter_files f;
    struct adapter *a = adapter_files_init(&f, m, dir, e) ? NULL : make(m, &f, o, e);
    adapter_files_release(&f);
    return a;
}

struct adapter *adapter_ref(struct adapter *a)
{
    size_t before = atomic_fetch_add_explicit(&a->n_ref, 1, memory_order_relaxed);
    ASSERT(before > 0);
    return a;
}

void adapter_unref(struct adapter *a)
{
    if (!a)
        return;
    size_t before = atomic_fetch_sub(&a->n_ref, 1);
    ASSERT(before > 0);
    if (before > 1)
        return;
    device_mem_free(a->device, a->block);
    if (a->budget)
        atomic_fetch_sub(&a->budget->bytes, a->bytes);
    free(a);
}

/* ---- asking -------------------------------------------------------------------------------- */

const char *adapter_name(const struct adapter *a)
{
    return a->name;
}

uint64_t adapter_version(const struct adapter *a)
{
    return a->version;
}

int64_t adapter_rank(const struct adapter *a)
{
    return a->rank;
}

int64_t adapter_created(const struct adapter *a)
{
    return a->created;
}

size_t adapter_bytes(const struct adapter *a)
{
    return a->bytes;
}

static void bind(const struct product *p, struct k_lora_group *g)
{
    g->rank = p->rank;
    g->scale = p->scale;
    if (p->is_bf16) {
        g->a_bf16 = p->a;
        g->b_panels_bf16 = p->b;
    } else {
        g->a = p->a;
        g->b_panels = p->b;
    }
}

void adapter_group(const struct model *m, const struct adapter *a, int64_t row_lo, int64_t row_hi,
                   struct batch *b, int64_t group)
{
    ASSERT(group >= 0 && group < b->lora_stride);
    for (int32_t i = 0; i < m->n_lora; i++) {
        struct k_lora_group *g = &b->lora[i * b->lora_stride + group];
        *g = (struct k_lora_group){.row_lo = row_lo, .row_hi = row_hi};
        if (a && a->at[i].rank > 0)
            bind(&a->at[i], g);
    }
}
