/* SPDX-License-Identifier: Apache-2.0
 *
 * The halves of all products share one block; B as the panels that the product wants, since it is
 * used a thousand times for each load. A rank has its part of each. A product whose halves the file
 * holds as bf16 stays bf16, which changes no bit and halves what a step reads of it; all others are
 * f32. What the files claim was checked when they were opened (adapter_files.h); then come sizes;
 * then the numbers are read.
 */
#include "engine/model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/carve.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/model/adapter_files.h"
#include "engine/model/dora.h"
#include "engine/model/part.h"
#include "engine/model/saved.h"
#include "kernels/float16.h"
#include "kernels/linear.h"

enum { SAVED_ROWS = 8 * K_NR }; /* of a whole matrix, read at a time */

struct product {
    const struct param *whole; /* borrowed: as all ranks have it together */
    struct part part;          /* of it, here */
    struct adapter_product is; /* rank 0: none here */
    void *a;                   /* borrowed from the block: [rank, k] */
    void *b;                   /* borrowed from the block: [n, rank], as panels; and so for each
                                * expert where there are some, one behind the other */
    size_t bytes;              /* from a to the end of b */
    float *gain;               /* borrowed from the block: [n]; NULL: none */
};

struct adapter {
    atomic_size_t n_ref;
    uint64_t version;
    struct device *device;         /* borrowed */
    struct adapter_budget *budget; /* borrowed; NULL until its bytes are taken */
    adapter_news_fn *on_news;      /* hears of the end; NULL until the others know of it */
    void *news_ctx;                /* borrowed */
    void *block;                   /* owned: device memory */
    size_t bytes;
    int64_t rank, created;
    int32_t n_lora;
    bool is_dora;                       /* some product has gains */
    struct k_weight saved[SAVED_COUNT]; /* in block; n 0: it has the model's */
    char name[ADAPTER_NAME_BYTES];
    struct product at[]; /* [n_lora] */
};

/* ---- room ---------------------------------------------------------------------------------- */

static int64_t outputs_of(const struct part *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_output; i++)
        n += p->output[i].n;
    return n;
}

/* Cuts the block, or only measures where there is none. How many elements there are a file that
 * holds them says. */
static size_t lay_out(struct adapter *a)
{
    struct carve c = {.base = a->block};
    for (int32_t i = 0; i < a->n_lora; i++) {
        struct product *p = &a->at[i];
        if (!p->is.rank)
            continue;
        size_t each = p->is.is_bf16 ? sizeof(k_bf16) : sizeof(float);
        size_t begin = c.at;
        int64_t n_half = p->whole->n_half ? p->whole->n_half : 1;
        p->a = carve(&c, n_half * p->is.rank * p->part.input.n, each);
        p->b = carve(&c, n_half * linear_panels(outputs_of(&p->part)) * K_NR * p->is.rank, each);
        p->bytes = c.at - begin;
        p->gain = p->is.is_dora ? carve(&c, p->whole->n, sizeof *p->gain) : NULL;
        a->is_dora |= p->is.is_dora;
        a->rank = p->is.rank > a->rank ? p->is.rank : a->rank;
    }
    for (int i = 0; i < SAVED_COUNT; i++) {
        struct k_weight *w = &a->saved[i];
        void *at = carve(&c, (int64_t)k_weight_bytes(w->type, w->n, w->k), 1);
        if (w->n && a->block)
            k_weight_bind(w, w->type, w->n, w->k, at);
    }
    return c.at;
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

static void list_products(struct adapter *a, const struct model *m,
                          const struct adapter_product *at)
{
    static const struct param_share all = {.cut = PARAM_WHOLE};
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        if (p->lora >= 0)
            a->at[p->lora] = (struct product){
                .whole = p,
                .part = part_of_product(p, m->share ? &m->share[i] : &all, &m->ranks),
                .is = at[p->lora]};
    }
}

static void list_saved(struct adapter *a, const struct model *m, const bool is_there[SAVED_COUNT])
{
    for (int i = 0; i < SAVED_COUNT; i++) {
        const struct param *p = is_there[i] ? saved_param(m, (enum saved)i) : NULL;
        if (p)
            a->saved[i] = (struct k_weight){.type = p->w.type, .n = p->n, .k = p->k};
    }
}

static struct adapter *make(const struct model *m, const struct adapter_product *at,
                            const bool saved[SAVED_COUNT], const struct adapter_options *o,
                            struct err *e)
{
    struct adapter *a = xcalloc(1, sizeof *a + (size_t)m->n_lora * sizeof *a->at);
    ASSERT(o->version > 0);
    atomic_init(&a->n_ref, 1);
    a->version = o->version;
    a->device = m->device;
    a->n_lora = m->n_lora;
    a->created = (int64_t)time(NULL);
    snprintf(a->name, sizeof a->name, "%s", o->name);
    list_products(a, m, at);
    list_saved(a, m, saved);
    a->bytes = lay_out(a);
    if (check_rank(a, o, e))
        goto fail;
    if (take_bytes(a, o->budget, e)) {
        if (o->lacks_room)
            *o->lacks_room = true;
        goto fail;
    }
    a->block = device_alloc(m->device, a->bytes, "an adapter", e);
    if (!a->block)
        goto fail;
    lay_out(a);
    return a;
fail:
    adapter_unref(a);
    return NULL;
}

struct adapter *adapter_new(const struct model *m, const struct adapter_product *at,
                            const struct adapter_options *o, struct err *e)
{
    static const bool none[SAVED_COUNT];
    return make(m, at, none, o, e);
}

/* ---- numbers ------------------------------------------------------------------------------- */

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

/* The columns of this rank's inputs. */
static int fill_a(struct stream *s, const struct product *p, const float *half, struct err *e)
{
    const struct part_run *in = &p->part.input;
    int64_t rows = param_half_rows(p->whole, false, p->is.rank), k = p->whole->k;
    float *x = try_alloc((size_t)(rows * in->n), sizeof *x, p->whole->name, e);
    for (int64_t r = 0; r < rows && x; r++)
        memcpy(x + r * in->n, half + r * k + in->lo, (size_t)in->n * sizeof *x);
    int rc = x ? send(s, p->is.is_bf16, p->a, x, rows * in->n, e) : -1;
    mem_free(x);
    return rc;
}

/* The rows of this rank's outputs, as panels. */
static void put_panels(const struct product *p, const float *half, float *panels)
{
    int64_t rank = p->is.rank, at = 0;
    for (int i = 0; i < p->part.n_output; i++) {
        const struct part_run *run = &p->part.output[i];
        for (int64_t o = run->lo; o < run->lo + run->n; o++, at++)
            for (int64_t r = 0; r < rank; r++)
                panels[at / K_NR * K_NR * rank + linear_f32_at(at % K_NR, r)] = half[o * rank + r];
    }
}

static int fill_b(struct stream *s, const struct product *p, const float *half, struct err *e)
{
    int64_t n_half = p->whole->n_half ? p->whole->n_half : 1;
    int64_t size = linear_panels(outputs_of(&p->part)) * K_NR * p->is.rank;
    float *panels = try_alloc((size_t)(n_half * size), sizeof *panels, p->whole->name, e);
    for (int64_t i = 0; i < n_half && panels; i++)
        put_panels(p, half + i * p->whole->lora_n * p->is.rank, panels + i * size);
    int rc = panels ? send(s, p->is.is_bf16, p->b, panels, n_half * size, e) : -1;
    mem_free(panels);
    return rc;
}

int adapter_fill(struct adapter *a, int32_t product, const float *half_a, const float *half_b,
                 struct err *e)
{
    const struct product *p = &a->at[product];
    struct stream *s = stream_new(a->device, e);
    ASSERT(p->is.rank > 0);
    int rc = !s || fill_a(s, p, half_a, e) || fill_b(s, p, half_b, e) ? -1 : 0;
    if (s)
        stream_free(s);
    return rc;
}

/* ---- from a directory ---------------------------------------------------------------------- */

static struct adapter_product product_of(const struct adapter_files *f,
                                         const struct adapter_halves *h)
{
    if (!adapter_halves_are_there(h))
        return (struct adapter_product){0};
    return (struct adapter_product){.rank = adapter_halves_rank(f, h),
                                    .scale = (float)adapter_files_scale(f, h),
                                    .is_bf16 = adapter_halves_are_bf16(h),
                                    .is_dora = h->all.magnitude != NULL};
}

static int tell(struct adapter *a, const struct adapter_options *o, struct adapter_news n,
                struct err *e)
{
    n.version = a->version;
    return o->on_news ? o->on_news(o->news_ctx, &n, e) : 0;
}

static int read_halves(struct adapter *a, const struct adapter_files *f, int32_t i,
                       const struct adapter_options *o, struct dora *dora, struct err *e)
{
    struct adapter_news n = {.kind = ADAPTER_HALVES, .product = i, .at = &a->at[i].is};
    const struct adapter_product *is = n.at;
    float *half_a = adapter_half_read(f, &f->at[i], false, e),
          *half_b = half_a ? adapter_half_read(f, &f->at[i], true, e) : NULL,
          *magnitude = half_b && is->is_dora ? adapter_magnitude_read(&f->at[i], e) : NULL;
    struct dora_halves h = {half_a, half_b, magnitude, is->rank, is->scale};
    n.a = half_a;
    n.b = half_b;
    int rc = !half_b || adapter_fill(a, i, half_a, half_b, e) || tell(a, o, n, e) ? -1 : 0;
    if (!rc && is->is_dora)
        rc = magnitude ? dora_find(dora, a->at[i].whole, &h, a->at[i].gain, e) : -1;
    mem_free(half_a);
    mem_free(half_b);
    mem_free(magnitude);
    return rc;
}

static int read_products(struct adapter *a, const struct adapter_files *f,
                         const struct adapter_options *o, struct err *e)
{
    struct dora dora;
    int rc = dora_init(&dora, a->device, e);
    for (int32_t i = 0; i < a->n_lora && !rc; i++)
        rc = a->at[i].is.rank ? read_halves(a, f, i, o, &dora, e) : 0;
    dora_release(&dora);
    return rc;
}

/* A matrix that the file has whole, some rows at a time. */
static int read_saved(struct adapter *a, const struct adapter_files *f, enum saved s, struct err *e)
{
    struct stream *stream = stream_new(a->device, e);
    struct k_weight_pack pack = {.src_type = K_F32, .ld_src = a->saved[s].k, .w = a->saved[s]};
    int64_t n = pack.w.n, k = pack.w.k;
    float *x = try_alloc((size_t)(SAVED_ROWS * k), sizeof *x, f->saved[s]->t->name, e);
    int rc = stream && x ? 0 : -1;
    for (int64_t row = 0; row < n && !rc; row += SAVED_ROWS) {
        pack.src = x;
        pack.panel_lo = row / K_NR;
        pack.n_src = linear_min(SAVED_ROWS, n - row);
        rc = adapter_saved_read(f, s, row, pack.n_src, x, e);
        if (rc)
            break;
        stream_launch_alone(stream, K_weight_pack, &pack, sizeof pack);
        rc = stream_sync(stream, e);
    }
    mem_free(x);
    if (stream)
        stream_free(stream);
    return rc;
}

static int read_all(struct adapter *a, const struct adapter_files *f,
                    const struct adapter_product *at, const struct adapter_options *o,
                    struct err *e)
{
    a->on_news = o->on_news;
    a->news_ctx = o->news_ctx;
    if (tell(a, o, (struct adapter_news){.kind = ADAPTER_NEW, .at = at}, e))
        return -1;
    if (read_products(a, f, o, e))
        return -1;
    for (int i = 0; i < SAVED_COUNT; i++)
        if (f->saved[i] && read_saved(a, f, (enum saved)i, e))
            return -1;
    return tell(a, o, (struct adapter_news){.kind = ADAPTER_READY}, e);
}

/* What the model can have of it. */
static int check_whole(const struct model *m, const struct adapter_files *f, struct err *e)
{
    if (f->config.is_dora && dora_check(m, e))
        return -1;
    for (int i = 0; i < SAVED_COUNT; i++)
        if (f->saved[i] && saved_check(m, (enum saved)i, false, e))
            return -1;
    return 0;
}

static struct adapter *load(const struct model *m, const struct adapter_files *f,
                            const struct adapter_options *o, struct err *e)
{
    struct adapter_product *at = xcalloc((size_t)m->n_lora + 1, sizeof *at);
    bool saved[SAVED_COUNT];
    for (int32_t i = 0; i < m->n_lora; i++)
        at[i] = product_of(f, &f->at[i]);
    for (int i = 0; i < SAVED_COUNT; i++)
        saved[i] = f->saved[i] != NULL;
    struct adapter *a = check_whole(m, f, e) ? NULL : make(m, at, saved, o, e);
    int rc = a ? read_all(a, f, at, o, e) : 0;
    free(at);
    if (!rc)
        return a;
    adapter_unref(a);
    return NULL;
}

/* It answers, and not with the bits that its training had. */
static void say_types(const struct adapter_files *f, const struct adapter_options *o)
{
    if (base_id_match(&f->base, &f->m->base) == BASE_OTHER_TYPES)
        log_event(LOG_WARN, "an adapter was trained over weights of another type",
                  LOG_TEXT("model", o->name), LOG_TEXT("trained_over", f->base.types),
                  LOG_TEXT("here", f->m->base.types));
}

struct adapter *adapter_load(const struct model *m, const char *dir,
                             const struct adapter_options *o, struct err *e)
{
    struct adapter_files f;
    struct adapter *a = adapter_files_init(&f, m, dir, e) ? NULL : load(m, &f, o, e);
    if (a)
        say_types(&f, o);
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
    if (a->on_news)
        a->on_news(a->news_ctx, &(struct adapter_news){.kind = ADAPTER_GONE, .version = a->version},
                   NULL);
    device_mem_free(a->device, a->block);
    if (a->budget)
        atomic_fetch_sub(&a->budget->bytes, a->bytes);
    free(a);
}

/* ---- asking -------------------------------------------------------------------------------- */

bool adapter_is_idle(const struct adapter *a)
{
    return atomic_load(&a->n_ref) == 1;
}

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
    g->rank = p->is.rank;
    g->scale = p->is.scale;
    g->stored = p->a;
    g->stored_bytes = p->bytes;
    if (p->is.is_bf16) {
        g->a_bf16 = p->a;
        g->b_panels_bf16 = p->b;
    } else {
        g->a = p->a;
        g->b_panels = p->b;
    }
    g->gain = p->gain;
}

static void group_dora(const struct adapter *a, struct batch *b, int64_t group)
{
    if (group == 0)
        b->n[DIM_DORA] = 0;
    if (a && a->is_dora)
        b->n[DIM_DORA] = group + 1;
}

/* Rows of a group for which there is no room have the model's: no adapter that is here has others.
 */
static void group_saved(const struct adapter *a, struct batch *b, int64_t group, int64_t row_lo,
                        int64_t row_hi)
{
    if (group == 0)
        b->n[DIM_SAVED] = 0;
    for (int i = 0; i < SAVED_COUNT; i++) {
        const struct k_weight *w = a && a->saved[i].n ? &a->saved[i] : NULL;
        ASSERT(!w || group < b->saved_stride);
        if (w)
            b->n[DIM_SAVED] = group + 1;
        if (group < b->saved_stride)
            b->saved[i][group] =
                (struct k_saved){row_lo, row_hi, w ? w->data : NULL, w ? w->scale : NULL};
    }
}

void adapter_group(const struct model *m, const struct adapter *a, int64_t row_lo, int64_t row_hi,
                   struct batch *b, int64_t group)
{
    ASSERT(group >= 0 && group < b->lora_stride);
    if (b->lora_of)
        b->lora_of[group] = a ? a->version : 0;
    group_dora(a, b, group);
    group_saved(a, b, group, row_lo, row_hi);
    for (int32_t i = 0; i < m->n_lora; i++) {
        struct k_lora_group *g = &b->lora[i * b->lora_stride + group];
        *g = (struct k_lora_group){.row_lo = row_lo, .row_hi = row_hi};
        if (a && a->at[i].is.rank > 0)
            bind(&a->at[i], g);
    }
}
