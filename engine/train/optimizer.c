/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW as PyTorch's: decay first, moments without it, epsilon outside of the root.
 */
#include "engine/train/optimizer.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/mem.h"

int optimizer_init(struct optimizer *o, struct train_tensors *on, struct stream *s, struct err *e)
{
    size_t bytes;
    *o = (struct optimizer){.stream = s, .on = on};
    o->n_part = (on->n_elem + K_SUM_CHUNK - 1) / K_SUM_CHUNK;
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

int optimizer_norm(struct optimizer *o, double *norm, struct err *e)
{
    struct k_sum_sq a = {.x = o->on->g, .n = o->on->n_elem, .part = o->part};
    double sum = 0;
    stream_launch(o->stream, K_sum_sq, &a, sizeof a);
    stream_copy(o->stream, o->host, o->part, (size_t)o->n_part * sizeof(double), COPY_FROM_DEVICE);
    if (stream_sync(o->stream, e))
        return -1;
    for (int64_t i = 0; i < o->n_part; i++)
        sum += o->host[i];
    *norm = sqrt(sum);
    return 0;
}

static void update(struct optimizer *o, struct k_adamw a, int64_t lo, int64_t hi)
{
    a.p = o->on->p + lo;
    a.g = o->on->g + lo;
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
    update(o, a, 0, o->on->n_decay);
    a.decay = 0;
    update(o, a, o->on->n_decay, o->on->n_elem);
    optimizer_clear(o);
}

void optimizer_clear(struct optimizer *o)
{
    struct k_copy zero = {.y = o->on->g, .m = 1, .d = o->on->n_elem, .ld_y = o->on->n_elem};
    stream_launch(o->stream, K_copy, &zero, sizeof zero);
}
