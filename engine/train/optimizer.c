/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW as PyTorch's: decay first, moments without it, epsilon outside of the root.
 */
#include "engine/train/optimizer.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/mem.h"

/* Each late gradient is summed alone, the others in one. */
static int64_t parts_of(int64_t n)
{
    return (n + K_SUM_CHUNK - 1) / K_SUM_CHUNK;
}

int optimizer_init(struct optimizer *o, struct train_tensors *on, struct stream *s, struct err *e)
{
    size_t bytes;
    *o = (struct optimizer){.stream = s, .on = on, .n_part = parts_of(on->n_elem - on->n_late)};
    for (size_t i = 0; i < on->list.n; i++)
        if (!on->list.at[i].g)
            o->n_part += parts_of(on->list.at[i].rows * on->list.at[i].cols);
    bytes = (size_t)o->n_part * sizeof(double);
    o->part = device_alloc(on->device, bytes, "the gradient's norm", e);
    o->host = try_alloc((size_t)o->n_part, sizeof(double), "the gradient's norm", e);
    return o->part && o->host ? 0 : -1;
}

void optimizer_release(struct optimizer *o)
{
    if (o->part)
        device_mem_free(o->on->device, o->part);
    mem_free(o->host);
    o->part = o->host = NULL;
}

static int64_t sum_squares(struct optimizer *o, const float *g, int64_t n, int64_t at)
{
    struct k_sum_sq a = {.x = g, .n = n, .part = o->part + at};
    if (n > 0)
        stream_launch(o->stream, K_sum_sq, &a, sizeof a);
    return at + parts_of(n);
}

int optimizer_norm(struct optimizer *o, double *norm, struct err *e)
{
    double sum = 0;
    int64_t at = sum_squares(o, o->on->g, o->on->n_elem - o->on->n_late, 0);
    for (size_t i = 0; i < o->on->list.n; i++) {
        const struct train_tensor *x = &o->on->list.at[i];
        if (!x->g)
            at = sum_squares(o, train_tensor_grad(x), x->rows * x->cols, at);
    }
    stream_copy(o->stream, o->host, o->part, (size_t)o->n_part * sizeof(double), COPY_FROM_DEVICE);
    if (stream_sync(o->stream, e))
        return -1;
    for (int64_t i = 0; i < o->n_part; i++)
        sum += o->host[i];
    *norm = sqrt(sum);
    return 0;
}

/* Elements [lo, hi) of the flat arrays, whose gradients begin at g. */
static void update(struct optimizer *o, struct k_adamw a, int64_t lo, int64_t hi, float *g)
{
    a.p = o->on->p + lo;
    a.g = g;
    a.m = o->on->m + lo;
    a.v = o->on->v + lo;
    a.n = hi - lo;
    if (a.n > 0)
        stream_launch(o->stream, K_adamw, &a, sizeof a);
}

void optimizer_step(struct optimizer *o, const struct train_options *opt, int64_t step, double norm)
{
    bool is_clipped = opt->max_norm > 0 && norm > opt->max_norm;
    struct k_adamw a = {.lr = train_lr(opt, step),
                        .beta1 = opt->beta1,
                        .beta2 = opt->beta2,
                        .eps = opt->eps,
                        .decay = opt->decay,
                        .g_scale = is_clipped ? opt->max_norm / (norm + 1e-6) : 1,
                        .corr1 = 1 - pow(opt->beta1, (double)(step + 1)),
                        .corr2 = 1 - pow(opt->beta2, (double)(step + 1))};
    for (size_t i = 0; i < o->on->list.n; i++) {
        const struct train_tensor *x = &o->on->list.at[i];
        if (!x->g)
            update(o, a, x->at, x->at + x->rows * x->cols, train_tensor_grad(x));
    }
    update(o, a, o->on->n_late, o->on->n_decay, o->on->g);
    a.decay = 0;
    update(o, a, o->on->n_decay, o->on->n_elem, o->on->g + o->on->n_decay - o->on->n_late);
    optimizer_clear(o);
}

void optimizer_clear(struct optimizer *o)
{
    int64_t n = o->on->n_elem - o->on->n_late;
    struct k_copy zero = {.y = o->on->g, .m = 1, .d = n, .ld_y = n};
    stream_launch(o->stream, K_copy, &zero, sizeof zero);
}
