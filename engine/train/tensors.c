/* SPDX-License-Identifier: Apache-2.0
 *
 * Flat arrays and a list of names. Of a model the matrices decay and have late gradients, the
 * vectors do neither.
 */
#include "engine/train/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

void train_tensors_init(struct train_tensors *t, struct device *d)
{
    *t = (struct train_tensors){.device = d, .model = {.size = 1}};
}

void train_tensors_release(struct train_tensors *t)
{
    for (size_t i = 0; i < t->list.n; i++)
        free(t->list.at[i].name);
    vec_release(&t->list);
    if (t->block)
        device_mem_free(t->device, t->block);
    t->block = NULL;
}

static int64_t aligned(int64_t n)
{
    return (n + TRAIN_ALIGN - 1) / TRAIN_ALIGN * TRAIN_ALIGN;
}

static int64_t sum_runs(const struct part *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_output; i++)
        n += p->output[i].n;
    return n;
}

struct part train_tensor_part(const struct train_tensors *t, const struct train_tensor *x, int rank)
{
    static const struct param_share all = {.cut = PARAM_WHOLE};
    const struct op_ranks at = {.rank = rank, .size = t->model.size};
    struct part p = part_of(x->of, t->share ? &t->share[x->of->index] : &all, &at);
    if (x->side == TRAIN_HALF_A) {
        p.output[0] = (struct part_run){0, x->rank};
        p.n_output = 1;
    } else if (x->side == TRAIN_HALF_B) {
        p.input = (struct part_run){0, x->rank};
    }
    return p;
}

/* Whose gradient comes in parts follows from how its parameter is shared. A half is whole where the
 * parameter is cut on its other side. */
static void describe(const struct train_tensors *t, struct train_tensor *x)
{
    const struct param_share *s = t->share ? &t->share[x->of->index] : NULL;
    struct part p = train_tensor_part(t, x, t->model.rank);
    enum param_cut cut = s ? s->cut : PARAM_WHOLE;
    bool is_cut = cut == PARAM_OUTPUTS ? x->side != TRAIN_HALF_A
                                       : cut == PARAM_INPUTS && x->side != TRAIN_HALF_B;
    x->rows = sum_runs(&p);
    x->cols = p.input.n;
    x->is_shared = !is_cut;
    x->sums_grad = s && (x->side == TRAIN_SELF ? s->sums_grad : !is_cut && cut != PARAM_WHOLE);
}

void train_tensors_add(struct train_tensors *t, const struct train_tensor *x)
{
    struct train_tensor y = *x;
    y.name = xstrdup(x->name);
    describe(t, &y);
    vec_push(&t->list, y);
}

/* Places of the tensors that do or do not decay, from `from` on; where they end. */
static int64_t place(const struct train_tensors *t, int rank, bool decays, int64_t from,
                     int64_t *at)
{
    for (size_t i = 0; i < t->list.n; i++) {
        const struct train_tensor *x = &t->list.at[i];
        if (x->decays != decays)
            continue;
        struct part p = train_tensor_part(t, x, rank);
        at[i] = from;
        from += aligned(sum_runs(&p) * p.input.n);
    }
    return from;
}

int64_t train_tensors_place(const struct train_tensors *t, int rank, int64_t *at)
{
    return place(t, rank, false, place(t, rank, true, 0, at), at);
}

int64_t train_own_elems(const struct train_tensors *t, int64_t n_elem)
{
    int n = train_n_data(&t->ranks);
    return n == 1 ? n_elem : aligned((n_elem + n - 1) / n);
}

static bool is_late(const struct train_tensor *x)
{
    return x->param && !x->param->is_vector;
}

static void bind(struct train_tensors *t, struct train_tensor *x, int64_t at)
{
    x->at = at;
    x->p = t->p + at;
    x->g = is_late(x) ? NULL : t->g + at - t->n_late;
    x->late = (struct param_late){.of = x->param};
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void measure(struct train_tensors *t, int64_t *at)
{
    t->n_decay = place(t, t->model.rank, true, 0, at);
    t->n_elem = train_tensors_place(t, t->model.rank, at);
    t->n_late = t->list.n && is_late(&t->list.at[0]) ? t->n_decay : 0;
    t->n_own = train_own_elems(t, t->n_elem);
    t->own_lo = least(t->ranks.data_rank * t->n_own, t->n_elem);
    t->own_hi = least(t->own_lo + t->n_own, t->n_elem);
}

int train_tensors_alloc(struct train_tensors *t, struct err *e)
{
    int64_t *at = xcalloc(t->list.n + 1, sizeof *at);
    measure(t, at);
    int64_t room = t->n_own * train_n_data(&t->ranks);
    t->bytes = (size_t)(room + 2 * t->n_own + t->n_elem - t->n_late) * sizeof(float);
    t->block = device_alloc(t->device, t->bytes, "what is trained", e);
    if (t->block) {
        t->p = t->block;
        t->m = t->p + room;
        t->v = t->m + t->n_own;
        t->g = t->v + t->n_own;
        for (size_t i = 0; i < t->list.n; i++)
            bind(t, &t->list.at[i], at[i]);
    }
    free(at);
    return t->block ? 0 : -1;
}

float *train_tensor_grad(const struct train_tensor *x)
{
    return x->g ? x->g : x->param->grad;
}

void train_tensor_changed(const struct train_tensor *x, struct stream *s)
{
    struct param *p = x->param;
    if (!p)
        return;
    if (p->is_vector) {
        stream_copy(s, p->vec, x->p, (size_t)p->n * sizeof(float), COPY_ON_DEVICE);
        return;
    }
    struct k_weight_pack w = {
        .src = x->p, .src_type = K_F32, .ld_src = p->k, .w = p->w, .n_src = p->n};
    stream_launch(s, K_weight_pack, &w, sizeof w);
}

struct train_tensor *train_tensors_get(const struct train_tensors *t, const char *name)
{
    for (size_t i = 0; i < t->list.n; i++)
        if (strcmp(t->list.at[i].name, name) == 0)
            return &t->list.at[i];
    return NULL;
}
