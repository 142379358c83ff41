/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW as PyTorch's: decay first, moments without it, epsilon outside of the root. Moments that
 * are codes become f32 for the step, some blocks at a time, and codes again behind it; the draws by
 * which they are rounded follow from the step and an element's place alone.
 */
#include "engine/train/optimizer.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "kernels/linear.h"
#include "kernels/moments.h"

enum {
    PIECE = 1 << 18 /* elements whose moments are opened at a time, but for a matrix's 256 rows */
};

_Static_assert(PIECE % K_MOMENT == 0, "pieces are blocks");

static int64_t parts_of(int64_t n)
{
    return (n + K_SUM_CHUNK - 1) / K_SUM_CHUNK;
}

/* A rank but the first leaves out what the first has too. */
static bool counts(const struct train_tensors *on, const struct train_tensor *x)
{
    return on->model.rank == 0 || !x->is_shared;
}

/* Runs `each` over the gradients that this rank counts: each late one alone; of the others all in
 * one, or, at a rank that leaves some out, one by one. Returns the parts of their sums. */
static int64_t over_gradients(struct optimizer *o, void (*each)(struct optimizer *o, const float *g,
                                                                int64_t n, int64_t at))
{
    struct train_tensors *on = o->on;
    int64_t at = 0, n_flat = on->n_elem - on->n_late;
    if (on->model.rank == 0 && n_flat > 0) {
        each(o, on->g, n_flat, at);
        at += parts_of(n_flat);
    }
    for (size_t i = 0; i < on->list.n; i++) {
        const struct train_tensor *x = &on->list.at[i];
        if (!counts(on, x) || (x->g && on->model.rank == 0))
            continue;
        each(o, train_tensor_grad(x), x->rows * x->cols, at);
        at += parts_of(x->rows * x->cols);
    }
    return at;
}

static void only_count(struct optimizer *o, const float *g, int64_t n, int64_t at)
{
    (void)o, (void)g, (void)n, (void)at;
}

/* Rows of a matrix whose moments are opened at a time: blocks begin with the first of them. */
static int64_t rows_opened(int64_t cols)
{
    int64_t n = PIECE / cols / K_MOMENT * K_MOMENT;
    return n > 0 ? n : K_MOMENT;
}

static int open_init(struct optimizer *o, struct err *e)
{
    const struct train_tensors *on = o->on;
    bool is_flat = train_tensors_is_flat(on);
    int64_t most = is_flat ? linear_min(PIECE, on->own_hi - on->own_lo) : 0;
    if (!on->has_codes)
        return 0;
    for (size_t i = 0; i < on->list.n && !is_flat; i++) {
        const struct train_tensor *x = &on->list.at[i];
        int64_t all = x->rows * x->cols, n = x->p ? PIECE : rows_opened(x->cols) * x->cols;
        n = linear_min(n, all);
        most = n > most ? n : most;
    }
    for (int k = 0; k < 2; k++) {
        o->open[k] =
            device_alloc(o->on->device, (size_t)most * sizeof(float), "moments for a step", e);
        if (!o->open[k])
            return -1;
    }
    return 0;
}

int optimizer_init(struct optimizer *o, struct train_tensors *on, struct exchange *x,
                   struct stream *s, struct err *e)
{
    *o = (struct optimizer){.stream = s, .on = on, .exchange = x};
    o->n_part = over_gradients(o, only_count);
    size_t bytes = (size_t)(o->n_part + 1) * sizeof(double);
    o->part = device_alloc(on->device, bytes, "the gradient's norm", e);
    o->host = try_alloc((size_t)o->n_part + 1, sizeof(double), "the gradient's norm", e);
    return o->part && o->host ? open_init(o, e) : -1;
}

void optimizer_release(struct optimizer *o)
{
    for (int k = 0; k < 2; k++)
        if (o->open[k])
            device_mem_free(o->on->device, o->open[k]);
    o->open[0] = o->open[1] = NULL;
    if (o->part)
        device_mem_free(o->on->device, o->part);
    mem_free(o->host);
    o->part = o->host = NULL;
}

static void sum_squares(struct optimizer *o, const float *g, int64_t n, int64_t at)
{
    struct k_sum_sq a = {.x = g, .n = n, .part = o->part + at};
    stream_launch(o->stream, K_sum_sq, &a, sizeof a);
}

int optimizer_norm(struct optimizer *o, double *norm, struct err *e)
{
    double sum = 0;
    over_gradients(o, sum_squares);
    stream_copy(o->stream, o->host, o->part, (size_t)o->n_part * sizeof(double), COPY_FROM_DEVICE);
    if (stream_sync(o->stream, e))
        return -1;
    for (int64_t i = 0; i < o->n_part; i++)
        sum += o->host[i];
    if (exchange_sum(o->exchange, &sum, e))
        return -1;
    *norm = sqrt(sum);
    return 0;
}

/* Of the elements [lo, hi) of the flat arrays those that are this rank's; none: false. */
static bool is_own(const struct train_tensors *on, int64_t *lo, int64_t *hi)
{
    *lo = *lo > on->own_lo ? *lo : on->own_lo;
    *hi = *hi < on->own_hi ? *hi : on->own_hi;
    return *lo < *hi;
}

/* A step of some elements, with the draws of their moments' codes. */
struct piece {
    struct k_adamw a;
    int64_t step, lo, n;
};

static void turn_moments(struct optimizer *o, const struct piece *p, enum kernel_id k)
{
    const struct train_tensors *on = o->on;
    for (int i = 0; i < 2; i++) {
        struct k_moments a = {.x = o->open[i],
                              .code = on->code[i] + (p->lo - on->own_lo),
                              .power = on->power[i] + (p->lo - on->own_lo) / K_MOMENT,
                              .n = p->n,
                              .is_second = i == 1,
                              .seed = moment_seed(p->step, i == 1),
                              .first = p->lo};
        stream_launch(o->stream, k, &a, sizeof a);
    }
}

/* Where the piece's moments are f32. */
static void open_moments(struct optimizer *o, struct piece *p)
{
    const struct train_tensors *on = o->on;
    p->a.n = p->n;
    p->a.m = on->has_codes ? o->open[0] : on->m + (p->lo - on->own_lo);
    p->a.v = on->has_codes ? o->open[1] : on->v + (p->lo - on->own_lo);
    if (on->has_codes)
        turn_moments(o, p, K_moments_unpack);
}

static void close_moments(struct optimizer *o, const struct piece *p)
{
    if (o->on->has_codes)
        turn_moments(o, p, K_moments_pack);
}

/* Elements from `at` on, n of them, whose values and gradients lie there in f32. */
static void update_flat(struct optimizer *o, struct piece p, int64_t at, int64_t n, float *value,
                        const float *g)
{
    int64_t lo = at, hi = at + n;
    if (!is_own(o->on, &lo, &hi))
        return;
    for (p.lo = lo; p.lo < hi; p.lo += p.n) {
        p.n = o->on->has_codes ? linear_min(hi - p.lo, PIECE) : hi - lo;
        open_moments(o, &p);
        p.a.p = value + (p.lo - at);
        p.a.g = g + (p.lo - at);
        stream_launch(o->stream, K_adamw, &p.a, sizeof p.a);
        close_moments(o, &p);
    }
}

/* A matrix, of which whole panels are this rank's. */
static void update_weight(struct optimizer *o, struct piece p, const struct train_tensor *x)
{
    const struct train_tensors *on = o->on;
    int64_t lo = x->at, hi = x->at + x->rows * x->cols;
    if (!is_own(on, &lo, &hi))
        return;
    for (p.lo = lo; p.lo < hi; p.lo += p.n) {
        p.n = on->has_codes ? linear_min(hi - p.lo, rows_opened(x->cols) * x->cols) : hi - lo;
        open_moments(o, &p);
        struct k_adamw_weight a = {.a = p.a};
        a.w = linear_part(&x->param->w, (p.lo - x->at) / x->cols, p.n / x->cols);
        a.low = train_tensor_has_low(x) ? on->low + (p.lo - on->own_lo) : NULL;
        a.a.g = train_tensor_grad(x) + (p.lo - x->at);
        stream_launch(o->stream, K_adamw_weight, &a, sizeof a);
        close_moments(o, &p);
    }
}

/* What LoRA+ has another learning rate for: as PEFT's, an adapter's B, and its vectors. */
static bool is_faster(const struct train_tensor *x)
{
    return x->side == TRAIN_HALF_B || x->side == TRAIN_MAGNITUDE;
}

int optimizer_step(struct optimizer *o, const struct train_options *opt, int64_t step, double norm,
                   struct err *e)
{
    const struct train_tensors *on = o->on;
    bool is_clipped = opt->max_norm > 0 && norm > opt->max_norm;
    struct piece p = {.step = step,
                      .a = {.lr = train_lr(opt, step),
                            .beta1 = opt->beta1,
                            .beta2 = opt->beta2,
                            .eps = opt->eps,
                            .decay = opt->decay,
                            .g_scale = is_clipped ? opt->max_norm / (norm + 1e-6) : 1,
                            .corr1 = 1 - pow(opt->beta1, (double)(step + 1)),
                            .corr2 = 1 - pow(opt->beta2, (double)(step + 1))}};
    const double lr = p.a.lr, ratio = opt->lora.lr_ratio;
    bool is_one = train_tensors_is_flat(on) && ratio == 0; /* halves: all of them decay */
    if (is_one)
        update_flat(o, p, 0, on->n_elem, on->p, on->g);
    for (size_t i = 0; i < on->list.n && !is_one; i++) {
        const struct train_tensor *x = &on->list.at[i];
        p.a.decay = x->decays ? opt->decay : 0;
        p.a.lr = is_faster(x) && ratio > 0 ? lr * ratio : lr;
        if (x->p)
            update_flat(o, p, x->at, x->rows * x->cols, x->p, x->g);
        else
            update_weight(o, p, x);
    }
    optimizer_clear(o);
    return exchange_values(o->exchange, e);
}

void optimizer_clear(struct optimizer *o)
{
    int64_t n = o->on->n_elem - o->on->n_late;
    struct k_copy zero = {.y = o->on->g, .m = 1, .d = n, .ld_y = n};
    stream_launch(o->stream, K_copy, &zero, sizeof zero);
}
