/* SPDX-License-Identifier: Apache-2.0
 *
 * The launches are on the trainer's stream, in the gate, but for those of the reference. B is zero
 * at first, so a weight's length is its row's own, and magnitude over length is 1 to the bit.
 */
#include "engine/train/magnitudes.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/carve.h"
#include "engine/base/mem.h"
#include "engine/train/subject.h"

static bool has_experts(const struct train_lora *l)
{
    for (int32_t i = 0; i < l->n_target; i++)
        if (strstr(l->target[i], TRAIN_EXPERTS))
            return true;
    return false;
}

/* With dropout PEFT multiplies what is left of an input by the weight, too: another product. */
int train_magnitudes_check(const struct model *m, const struct train_lora *l, struct err *e)
{
    if (!l->is_dora)
        return 0;
    if (l->rank == 0)
        return err_set(e, ERR_BAD_INPUT,
                       "use_dora: a training of all parameters has no adapter to keep magnitudes");
    if (l->dropout > 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "use_dora: not with lora_dropout: leave one of them out");
    if (has_experts(l))
        return err_set(e, ERR_UNSUPPORTED,
                       "use_dora: adapters of experts have no magnitudes: leave it out, or the "
                       "target " TRAIN_EXPERTS);
    return dora_check(m, e);
}

/* Cuts the block, or only measures where there is none. */
static void lay_out(struct train_magnitudes *m, int64_t n, bool has_reference)
{
    struct carve c = {.base = (char *)m->block};
    m->gain = carve(&c, n, sizeof *m->gain);
    m->norm = carve(&c, n, sizeof *m->norm);
    m->before = has_reference ? carve(&c, n, sizeof *m->before) : NULL;
    m->bytes = c.at;
}

int train_magnitudes_init(struct train_subject *s, bool has_reference, struct err *e)
{
    struct train_magnitudes *m = &s->magnitudes;
    int64_t n = 0;
    if (!s->lora.is_dora)
        return 0;
    m->device = s->model->device;
    m->at = xcalloc((size_t)s->model->n_lora + 1, sizeof *m->at);
    for (int32_t i = 0; i < s->model->n_lora; i++) {
        m->at[i] = n;
        n += s->half_a[i] < 0 ? 0 : s->tensors.list.at[s->half_a[i]].of->n;
    }
    lay_out(m, n, has_reference);
    m->block = device_alloc(m->device, m->bytes, "gains of an adapter that is trained", e);
    if (!m->block)
        return -1;
    lay_out(m, n, has_reference);
    return 0;
}

void train_magnitudes_release(struct train_magnitudes *m)
{
    if (m->device) {
        dora_rows_release(&m->rows, m->device);
        device_mem_free(m->device, m->block);
    }
    free(m->at);
    *m = (struct train_magnitudes){NULL};
}

/* A, B and the magnitudes of a product. */
static const struct train_tensor *tensors_of(const struct train_subject *s, int32_t product)
{
    return s->half_a[product] < 0 ? NULL : &s->tensors.list.at[s->half_a[product]];
}

static int find(struct train_subject *s, int32_t product, bool has_magnitude, bool is_reference,
                struct err *e)
{
    struct train_magnitudes *m = &s->magnitudes;
    const struct train_tensor *x = tensors_of(s, product);
    struct k_dora_gain how = {.rank = s->lora.rank,
                              .scale = (float)train_lora_scale(&s->lora),
                              .norm = m->norm + m->at[product]};
    const float *from = is_reference ? s->reference : s->tensors.p;
    how.a = from + x[0].at;
    how.b = from + x[1].at;
    how.magnitude = has_magnitude ? from + x[2].at : NULL;
    how.gain = (is_reference ? m->before : m->gain) + m->at[product];
    return dora_rows_find(&m->rows, x->of, how, s->stream,
                          is_reference ? stream_launch_alone : stream_launch, e);
}

int train_magnitudes_first(struct train_subject *s, struct err *e)
{
    struct train_magnitudes *m = &s->magnitudes;
    for (int32_t i = 0; i < s->model->n_lora && m->device; i++) {
        const struct train_tensor *x = tensors_of(s, i);
        if (!x)
            continue;
        if (find(s, i, false, false, e))
            return -1;
        stream_copy(s->stream, x[2].p, m->norm + m->at[i], (size_t)x->of->n * sizeof(float),
                    COPY_ON_DEVICE);
        stream_rest(s->stream);
    }
    return stream_sync(s->stream, e);
}

int train_magnitudes_find(struct train_subject *s, bool is_reference, struct err *e)
{
    for (int32_t i = 0; i < s->model->n_lora && s->magnitudes.device; i++)
        if (tensors_of(s, i) && find(s, i, true, is_reference, e))
            return -1;
    return 0;
}

void train_magnitudes_bind(const struct train_subject *s, int32_t product, bool is_reference,
                           struct k_lora_group *g)
{
    const struct train_magnitudes *m = &s->magnitudes;
    if (!m->device)
        return;
    g->gain = (is_reference ? m->before : m->gain) + m->at[product];
    g->norm = m->norm + m->at[product];
    g->dmagnitude = is_reference ? NULL : tensors_of(s, product)[2].g;
}
