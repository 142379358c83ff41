/* SPDX-License-Identifier: Apache-2.0
 *
 * Some panels of the weight at a time, as f32 rows. Where a weight has its inputs in an order of
 * its own they are brought back from it first, since A has them as they come.
 */
#include "engine/model/dora.h"

#include "kernels/linear.h"

enum { ROWS = 8 * K_NR };

bool dora_is_possible(const struct model *m)
{
    return !m->part;
}

int dora_check(const struct model *m, struct err *e)
{
    return dora_is_possible(m)
               ? 0
               : err_set(e, ERR_UNSUPPORTED,
                         "use_dora: not where ranks share the model (--tp): none of them has the "
                         "rows of all weights whole");
}

/* ---- of what lies on the device ------------------------------------------------------------- */

void dora_rows_release(struct dora_rows *r, struct device *d)
{
    device_mem_free(d, r->at);
    *r = (struct dora_rows){NULL, 0};
}

/* Twice the room where rows are brought into another order. */
static int reserve(struct dora_rows *r, const struct param *p, struct device *d, struct err *e)
{
    size_t bytes = (size_t)(ROWS * p->k) * sizeof *r->at * (p->order ? 2 : 1);
    if (bytes <= r->bytes)
        return 0;
    dora_rows_release(r, d);
    r->at = device_alloc(d, bytes, "rows of a weight", e);
    r->bytes = r->at ? bytes : 0;
    return r->at ? 0 : -1;
}

/* Rows of a part of the weight, with inputs as they come. */
static const float *unpack(struct dora_rows *r, const struct param *p, const struct k_weight *part,
                           struct stream *s, stream_launch_fn *launch)
{
    struct k_weight_unpack a = {.w = *part, .dst = r->at, .ld_dst = p->k};
    launch(s, K_weight_unpack, &a, sizeof a);
    if (!p->order)
        return r->at;
    struct k_reorder back = {.x = r->at,
                             .y = r->at + ROWS * p->k,
                             .at = p->order->at,
                             .ld_x = p->k,
                             .ld_y = p->k,
                             .m = part->n,
                             .d = p->k,
                             .inverse = true};
    launch(s, K_reorder, &back, sizeof back);
    return back.y;
}

int dora_rows_find(struct dora_rows *r, const struct param *p, struct k_dora_gain how,
                   struct stream *s, stream_launch_fn *launch, struct err *e)
{
    const struct k_dora_gain all = how;
    if (reserve(r, p, stream_device(s), e))
        return -1;
    how.ld_w = how.k = p->k;
    for (int64_t lo = 0; lo < p->n; lo += ROWS) {
        struct k_weight part = linear_part(&p->w, lo, linear_min(ROWS, p->n - lo));
        how.w = unpack(r, p, &part, s, launch);
        how.n = part.n;
        how.b = all.b + lo * how.rank;
        how.magnitude = all.magnitude ? all.magnitude + lo : NULL;
        how.norm = all.norm + lo;
        how.gain = all.gain ? all.gain + lo : NULL;
        launch(s, K_dora_gain, &how, sizeof how);
    }
    return 0;
}

/* ---- of what lies with the host ------------------------------------------------------------- */

int dora_init(struct dora *d, struct device *device, struct err *e)
{
    *d = (struct dora){.device = device, .stream = stream_new(device, e)};
    return d->stream ? 0 : -1;
}

void dora_release(struct dora *d)
{
    dora_rows_release(&d->rows, d->device);
    device_mem_free(d->device, d->x);
    if (d->stream)
        stream_free(d->stream);
}

static float *send(struct dora *d, float **at, const float *x, int64_t n)
{
    float *to = *at;
    stream_copy(d->stream, to, x, (size_t)n * sizeof *x, COPY_TO_DEVICE);
    *at += n;
    return to;
}

int dora_find(struct dora *d, const struct param *p, const struct dora_halves *h, float *gain,
              struct err *e)
{
    size_t floats = (size_t)(h->rank * (p->k + p->n) + 2 * p->n);
    struct k_dora_gain how = {.rank = h->rank, .scale = h->scale, .gain = gain};
    if (floats > d->floats) {
        device_mem_free(d->device, d->x);
        d->x = device_alloc(d->device, floats * sizeof *d->x, "an adapter's gains", e);
        d->floats = d->x ? floats : 0;
    }
    if (!d->x)
        return -1;
    float *at = d->x;
    how.a = send(d, &at, h->a, h->rank * p->k);
    how.b = send(d, &at, h->b, p->n * h->rank);
    how.magnitude = send(d, &at, h->magnitude, p->n);
    how.norm = at;
    return dora_rows_find(&d->rows, p, how, d->stream, stream_launch_alone, e) ||
                   stream_sync(d->stream, e)
               ? -1
               : 0;
}
