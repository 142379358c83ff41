/* SPDX-License-Identifier: Apache-2.0
 *
 * See bound.h. The weights are few, some tens of numbers a layer: all are looked at in one go.
 */
#include "engine/train/bound.h"

#include <math.h>
#include <string.h>

#include "engine/base/mem.h"

static const enum slot bounded[] = {SLOT_TRACK_PREDICT, SLOT_TRACK_CORRECT};

enum { N_BOUNDED = sizeof bounded / sizeof *bounded };

/* What this rank has of it. */
static const struct param *param_at(const struct model *m, int64_t i)
{
    return model_stored(m) + model_layer(m, i / N_BOUNDED, bounded[i % N_BOUNDED])->index;
}

static void read_all(const struct model *m, struct stream *s, float *on_device)
{
    for (int64_t i = 0; i < m->cfg.n_layer * N_BOUNDED; i++) {
        const struct param *p = param_at(m, i);
        struct k_weight_unpack a = {.w = p->w, .dst = on_device, .ld_dst = p->w.k};
        stream_launch(s, K_weight_unpack, &a, sizeof a);
        on_device += p->w.n * p->w.k;
    }
}

static int look(const struct model *m, const float *w, struct err *e)
{
    for (int64_t i = 0; i < m->cfg.n_layer * N_BOUNDED; i++) {
        const struct param *p = param_at(m, i);
        for (int64_t k = 0; k < p->w.n * p->w.k; k++, w++)
            if (fabs((double)*w) > m->cfg.coef_bound)
                return err_set(e, ERR_UNSUPPORTED,
                               "%s: %g is beyond altup_coef_clip, %g, to which it would have to "
                               "be clamped: that is not supported",
                               p->name, (double)*w, m->cfg.coef_bound);
    }
    return 0;
}

int train_bound_check(const struct model *m, struct stream *s, struct err *e)
{
    int64_t n = 0;
    int rc = -1;
    if (!(m->cfg.coef_bound > 0))
        return 0;
    for (int64_t i = 0; i < m->cfg.n_layer * N_BOUNDED; i++)
        n += param_at(m, i)->w.n * param_at(m, i)->w.k;
    size_t bytes = (size_t)n * sizeof(float);
    float *host = try_alloc(bytes, 1, "weights that have a bound", e);
    float *on_device =
        host ? device_alloc(stream_device(s), bytes, "weights that have a bound", e) : NULL;
    if (on_device) {
        memset(host, 0, bytes); /* what stays of it on paper */
        read_all(m, s, on_device);
        stream_copy(s, host, on_device, bytes, COPY_FROM_DEVICE);
        rc = stream_sync(s, e) || look(m, host, e) ? -1 : 0;
        device_mem_free(stream_device(s), on_device);
    }
    mem_free(host);
    return rc;
}
