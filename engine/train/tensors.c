/* SPDX-License-Identifier: Apache-2.0
 *
 * Flat arrays and a list of names. Of a model the matrices have late gradients, the vectors do not.
 */
#include "engine/train/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/carve.h"
#include "engine/base/mem.h"
#include "kernels/linear.h"

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

int64_t train_tensors_align(const struct train_tensors *t)
{
    return t->has_codes ? K_MOMENT : TRAIN_ALIGN;
}

static int64_t aligned(const struct train_tensors *t, int64_t n)
{
    int64_t each = train_tensors_align(t);
    return (n + each - 1) / each * each;
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
    const struct param_share *s = t->share ? &t->share[x->of->index] : &all;
    if (x->side == TRAIN_SELF)
        return part_of(x->of, s, &at);
    struct part p = part_of_product(x->of, s, &at);
    if (x->side == TRAIN_HALF_A) {
        p.output[0] = (struct part_run){0, param_half_rows(x->of, false, x->rank)};
        p.n_output = 1;
    } else {
        if (x->of->n_half)
            p.output[0].n = param_half_rows(x->of, true, x->rank);
        p.input = (struct part_run){0, x->side == TRAIN_MAGNITUDE ? 1 : x->rank};
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
    bool has_inputs = x->side == TRAIN_SELF || x->side == TRAIN_HALF_A;
    bool is_cut =
        cut == PARAM_OUTPUTS ? x->side != TRAIN_HALF_A : cut == PARAM_INPUTS && has_inputs;
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

int64_t train_tensors_place(const struct train_tensors *t, int rank, int64_t *at)
{
    int64_t from = 0;
    for (size_t i = 0; i < t->list.n; i++) {
        struct part p = train_tensor_part(t, &t->list.at[i], rank);
        at[i] = from;
        from += aligned(t, sum_runs(&p) * p.input.n);
    }
    return from;
}

static bool is_matrix(const struct train_tensor *x)
{
    return x->param && !x->param->is_vector;
}

int64_t train_tensors_cut(const struct train_tensors *t, int rank, const int64_t *at,
                          int64_t n_elem, int d)
{
    int64_t want = n_elem * d / train_n_data(&t->ranks);
    size_t i = 0;
    if (want == 0 || want == n_elem)
        return want;
    while (i + 1 < t->list.n && at[i + 1] <= want)
        i++;
    struct part p = train_tensor_part(t, &t->list.at[i], rank);
    int64_t unit = train_tensors_align(t); /* K_MOMENT rows are whole panels, and whole blocks */
    if (is_matrix(&t->list.at[i]))
        unit = (t->has_codes ? K_MOMENT : K_NR) * p.input.n;
    int64_t cut = linear_ceil_div(want - at[i], unit) * unit;
    return cut < sum_runs(&p) * p.input.n ? at[i] + cut : i + 1 < t->list.n ? at[i + 1] : n_elem;
}

void *train_tensors_value_at(const struct train_tensors *t, int64_t i)
{
    const struct train_tensor *x = t->list.at;
    if (t->p && i <= t->n_half)
        return t->p + i;
    while (x + 1 < t->list.at + t->list.n && x[1].at <= i)
        x++;
    int64_t n = linear_min(i - x->at, x->rows * x->cols);
    if (!is_matrix(x))
        return x->p + n;
    size_t panel = linear_panel_bytes(x->param->w.type, x->cols);
    return (char *)x->param->w.data + (size_t)linear_panels(n / x->cols) * panel;
}

/* Returns where the next gradient that is not late has its place. */
static float *bind(struct train_tensors *t, struct train_tensor *x, int64_t at, float *g)
{
    bool is_late = is_matrix(x);
    x->at = at;
    x->p = is_late ? NULL : x->param ? x->param->vec : t->p + at;
    x->g = is_late ? NULL : g;
    x->late = (struct param_late){.of = x->param};
    return is_late ? g : g + aligned(t, x->rows * x->cols);
}

static void measure(struct train_tensors *t, int64_t *at)
{
    int d = t->ranks.data_rank;
    t->n_elem = train_tensors_place(t, t->model.rank, at);
    t->n_late = 0;
    for (size_t i = 0; i < t->list.n; i++)
        if (is_matrix(&t->list.at[i]))
            t->n_late += aligned(t, t->list.at[i].rows * t->list.at[i].cols);
    t->n_half = 0;
    for (size_t i = 0; i < t->list.n && !t->list.at[i].param; i++)
        t->n_half = at[i] + aligned(t, t->list.at[i].rows * t->list.at[i].cols);
    t->own_lo = train_tensors_cut(t, t->model.rank, at, t->n_elem, d);
    t->own_hi = train_tensors_cut(t, t->model.rank, at, t->n_elem, d + 1);
}

bool train_tensor_has_low(const struct train_tensor *x)
{
    return is_matrix(x) && k_format(x->param->w.type)->trained == FORMAT_HALVES;
}

/* For all of what this rank steps, as soon as one has any: places are the moments' own. */
static bool has_low(const struct train_tensors *t)
{
    for (size_t i = 0; i < t->list.n; i++)
        if (train_tensor_has_low(&t->list.at[i]))
            return true;
    return false;
}

/* Cuts the block, or only measures where there is none. */
static size_t lay_out(struct train_tensors *t, int64_t n_p, int64_t n_own)
{
    struct carve c = {.base = t->block};
    int64_t n_power = linear_ceil_div(n_own, K_MOMENT);
    t->g = carve(&c, t->n_elem - t->n_late, sizeof *t->g);
    t->p = n_p ? carve(&c, n_p, sizeof *t->p) : NULL;
    t->low = has_low(t) ? carve(&c, n_own, sizeof *t->low) : NULL;
    size_t before = c.at;
    for (int k = 0; k < 2 && t->has_codes; k++) {
        t->code[k] = carve(&c, n_own, 1);
        t->power[k] = carve(&c, n_power, 1);
    }
    t->m = t->has_codes ? NULL : carve(&c, n_own, sizeof *t->m);
    t->v = t->has_codes ? NULL : carve(&c, n_own, sizeof *t->v);
    t->moment_bytes = c.at - before;
    return c.at;
}

int train_tensors_alloc(struct train_tensors *t, struct err *e)
{
    int64_t *at = xcalloc(t->list.n + 1, sizeof *at);
    measure(t, at);
    int64_t n_own = t->own_hi - t->own_lo;
    t->bytes = lay_out(t, t->n_half, n_own);
    t->block = device_alloc(t->device, t->bytes, "what is trained", e);
    if (t->block) {
        lay_out(t, t->n_half, n_own);
        float *g = t->g;
        for (size_t i = 0; i < t->list.n; i++)
            g = bind(t, &t->list.at[i], at[i], g);
    }
    free(at);
    return t->block ? 0 : -1;
}

float *train_tensor_grad(const struct train_tensor *x)
{
    return x->g ? x->g : x->param->grad;
}

struct train_tensor *train_tensors_get(const struct train_tensors *t, const char *name)
{
    for (size_t i = 0; i < t->list.n; i++)
        if (strcmp(t->list.at[i].name, name) == 0)
            return &t->list.at[i];
    return NULL;
}
