/* SPDX-License-Identifier: Apache-2.0
 *
 * Values come from the device by rows; where the file has a matrix by inputs, whole and turned.
 */
#include "engine/train/full_dir.h"

#include "engine/base/mem.h"
#include "engine/model/export.h"
#include "engine/train/state.h"

struct values {
    const struct train_subject *subject; /* borrowed */
    struct train_state state;
};

static bool has(void *ctx, const struct param *p)
{
    const struct values *v = ctx;
    return train_tensors_get(&v->subject->tensors, p->name) != NULL;
}

/* Rows of inputs: each element stands in a row of its own in the trained values. */
static int turn_rows(struct values *v, size_t i, int64_t row, int64_t n_row, float *x,
                     struct err *e)
{
    int64_t dim[2];
    train_state_shape(&v->state.on->list.at[i], dim);
    float *all = try_alloc((size_t)(dim[0] * dim[1]), sizeof *all, "a matrix to be turned", e);
    int rc = all ? train_state_get(&v->state, i, TRAIN_VALUE, 0, dim[0], all, e) : -1;
    for (int64_t k = 0; k < n_row && !rc; k++)
        for (int64_t o = 0; o < dim[0]; o++)
            x[k * dim[0] + o] = all[o * dim[1] + row + k];
    mem_free(all);
    return rc;
}

static int fill(void *ctx, const struct param *p, bool is_transposed, int64_t row, int64_t n_row,
                float *x, struct err *e)
{
    struct values *v = ctx;
    const struct train_tensors *on = &v->subject->tensors;
    size_t i = (size_t)(train_tensors_get(on, p->name) - on->list.at);
    int64_t each = p->n_tap ? p->n_tap : 1; /* elements in a row of the file's that are rows here */
    return is_transposed
               ? turn_rows(v, i, row, n_row, x, e)
               : train_state_get(&v->state, i, TRAIN_VALUE, row * each, n_row * each, x, e);
}

int full_dir_write(const char *path, struct train_subject *s, const struct model_dir *from,
                   struct err *e)
{
    struct values v = {.subject = s};
    const struct export_change change = {.has = has, .fill = fill, .ctx = &v};
    train_state_begin(&v.state, &s->tensors, s->stream);
    int rc = train_is_lead(&s->tensors.ranks) ? model_export(from, s->model, path, &change, e) : 0;
    return train_state_end(&v.state, rc, e);
}
