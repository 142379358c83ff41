/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of a matrix's elements is seen within the panels that it touches, which are turned to rows.
 */
#include "engine/train/value.h"

#include "engine/base/mem.h"
#include "kernels/float16.h"
#include "kernels/halves.h"
#include "kernels/linear.h"

void train_value_release(struct train_value *v)
{
    if (v->rows)
        device_mem_free(v->on->device, v->rows);
    mem_free(v->low);
    *v = (struct train_value){.on = v->on, .stream = v->stream};
}

static int reserve_rows(struct train_value *v, int64_t n, struct err *e)
{
    if (n > v->cap_rows) {
        if (v->rows)
            device_mem_free(v->on->device, v->rows);
        v->rows = device_alloc(v->on->device, (size_t)n * sizeof *v->rows, "rows of a matrix", e);
        v->cap_rows = v->rows ? n : 0;
    }
    return v->rows ? 0 : -1;
}

static int reserve_low(struct train_value *v, int64_t n, struct err *e)
{
    if (n > v->cap_low) {
        mem_free(v->low);
        v->low = try_alloc((size_t)n, sizeof *v->low, "low halves of a matrix", e);
        v->cap_low = v->low ? n : 0;
    }
    return v->low ? 0 : -1;
}

/* The panels that elements [at, at + n) touch, and, as rows, where the first of these is. */
struct view {
    struct k_weight w;
    float *first; /* borrowed */
};

static int view_init(struct view *of, struct train_value *v, const struct train_tensor *x,
                     int64_t at, int64_t n, struct err *e)
{
    int64_t lo = at / x->cols / K_NR * K_NR, hi = linear_ceil_div(at + n, x->cols);
    hi = linear_min(linear_panels(hi) * K_NR, x->rows);
    if (reserve_rows(v, (hi - lo) * x->cols, e))
        return -1;
    *of = (struct view){linear_part(&x->param->w, lo, hi - lo), v->rows + (at - lo * x->cols)};
    struct k_weight_unpack a = {.w = of->w, .dst = v->rows, .ld_dst = x->cols};
    stream_launch_alone(v->stream, K_weight_unpack, &a, sizeof a);
    return 0;
}

/* Of elements [at, at + n) those whose low halves are here, as places in the arrays of these. */
static struct part_run low_run(const struct train_tensors *on, const struct train_tensor *x,
                               int64_t at, int64_t n)
{
    int64_t lo = x->at + at, hi = lo + n;
    lo = lo > on->own_lo ? lo : on->own_lo;
    hi = hi < on->own_hi ? hi : on->own_hi;
    return (struct part_run){lo - on->own_lo, train_tensor_has_low(x) && lo < hi ? hi - lo : 0};
}

static int get_packed(struct train_value *v, const struct train_tensor *x, int64_t at, int64_t n,
                      float *out, struct err *e)
{
    struct part_run low = low_run(v->on, x, at, n);
    struct view of;
    if (view_init(&of, v, x, at, n, e) || (low.n && reserve_low(v, n, e)))
        return -1;
    stream_copy(v->stream, out, of.first, (size_t)n * sizeof *out, COPY_FROM_DEVICE);
    if (low.n) {
        ASSERT(low.n == n);
        stream_copy(v->stream, v->low, v->on->low + low.lo, (size_t)n * sizeof *v->low,
                    COPY_FROM_DEVICE);
    }
    if (stream_sync(v->stream, e))
        return -1;
    for (int64_t i = 0; i < low.n; i++)
        out[i] = f32_from_bits(halves_join(f32_bits(out[i]) >> 16, v->low[i]));
    return 0;
}

static int put_packed(struct train_value *v, const struct train_tensor *x, int64_t at, int64_t n,
                      float *in, struct err *e)
{
    struct part_run low = low_run(v->on, x, at, n);
    struct view of;
    if (view_init(&of, v, x, at, n, e) || reserve_low(v, n, e))
        return -1;
    for (int64_t i = 0; i < n && train_tensor_has_low(x); i++) {
        uint32_t u = halves_fit(f32_bits(in[i]));
        in[i] = f32_from_bits(u);
        v->low[i] = (uint16_t)u;
    }
    stream_copy(v->stream, of.first, in, (size_t)n * sizeof *in, COPY_TO_DEVICE);
    struct k_weight_pack a = {
        .src = v->rows, .src_type = K_F32, .ld_src = x->cols, .w = of.w, .n_src = of.w.n};
    stream_launch_alone(v->stream, K_weight_pack, &a, sizeof a);
    if (low.n)
        stream_copy(v->stream, v->on->low + low.lo, v->low + (low.lo + v->on->own_lo - x->at - at),
                    (size_t)low.n * sizeof *v->low, COPY_TO_DEVICE);
    return stream_sync(v->stream, e);
}

int train_value_get(struct train_value *v, const struct train_tensor *x, int64_t at, int64_t n,
                    float *out, struct err *e)
{
    if (!x->p)
        return get_packed(v, x, at, n, out, e);
    stream_copy(v->stream, out, x->p + at, (size_t)n * sizeof *out, COPY_FROM_DEVICE);
    return stream_sync(v->stream, e);
}

int train_value_put(struct train_value *v, const struct train_tensor *x, int64_t at, int64_t n,
                    float *in, struct err *e)
{
    if (!x->p)
        return put_packed(v, x, at, n, in, e);
    stream_copy(v->stream, x->p + at, in, (size_t)n * sizeof *in, COPY_TO_DEVICE);
    return stream_sync(v->stream, e);
}
