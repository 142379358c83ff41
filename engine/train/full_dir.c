/* SPDX-License-Identifier: Apache-2.0
 *
 * Values come from the device by rows; where the file has a matrix by inputs, whole and turned.
 */
#include "engine/train/full_dir.h"

#include "engine/base/mem.h"
#include "engine/model/export.h"

static bool has(void *ctx, const struct param *p)
{
    const struct train_subject *s = ctx;
    return train_tensors_get(&s->tensors, p->name) != NULL;
}

static int copy_rows(const struct train_subject *s, const float *from, int64_t n, float *x,
                     struct err *e)
{
    stream_copy(s->stream, x, from, (size_t)n * sizeof *x, COPY_FROM_DEVICE);
    return stream_sync(s->stream, e);
}

/* Rows of inputs: each element stands in a row of its own in the trained values. */
static int turn_rows(const struct train_subject *s, const struct train_tensor *t, int64_t row,
                     int64_t n_row, float *x, struct err *e)
{
    float *all = try_alloc((size_t)(t->rows * t->cols), sizeof *all, t->name, e);
    int rc = all ? copy_rows(s, t->p, t->rows * t->cols, all, e) : -1;
    for (int64_t i = 0; i < n_row && !rc; i++)
        for (int64_t o = 0; o < t->rows; o++)
            x[i * t->rows + o] = all[o * t->cols + row + i];
    mem_free(all);
    return rc;
}

static int fill(void *ctx, const struct param *p, bool is_transposed, int64_t row, int64_t n_row,
                float *x, struct err *e)
{
    const struct train_subject *s = ctx;
    const struct train_tensor *t = train_tensors_get(&s->tensors, p->name);
    return is_transposed ? turn_rows(s, t, row, n_row, x, e)
                         : copy_rows(s, t->p + row * t->cols, n_row * t->cols, x, e);
}

int full_dir_write(const char *path, const struct train_subject *s, const struct model_dir *from,
                   struct err *e)
{
    const struct export_change change = {.has = has, .fill = fill, .ctx = (void *)(uintptr_t)s};
    return model_export(from, s->model, path, &change, e);
}
