/* SPDX-License-Identifier: Apache-2.0
 *
 * Flat arrays and a list of names. Of a model the matrices decay and have late gradients, the
 * vectors do neither.
 */
#include "engine/train/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { ALIGN = 16 }; /* elements */

void train_tensors_init(struct train_tensors *t, struct device *d)
{
    *t = (struct train_tensors){.device = d};
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

void train_tensors_add(struct train_tensors *t, const char *name, int64_t rows, int64_t cols,
                       bool decays, struct param *param)
{
    vec_push(
        &t->list,
        (struct train_tensor){
            .name = xstrdup(name), .rows = rows, .cols = cols, .decays = decays, .param = param});
}

/* Places of the tensors that do or do not decay, from `at` on; where they end. */
static int64_t place(struct train_tensors *t, bool decays, int64_t at)
{
    for (size_t i = 0; i < t->list.n; i++) {
        struct train_tensor *x = &t->list.at[i];
        if (x->decays != decays)
            continue;
        x->at = at;
        at += (x->rows * x->cols + ALIGN - 1) / ALIGN * ALIGN;
    }
    return at;
}

size_t train_tensors_bytes(const struct train_tensors *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->list.n; i++)
        n += (size_t)((t->list.at[i].rows * t->list.at[i].cols + ALIGN - 1) / ALIGN * ALIGN);
    return n * 4 * sizeof(float);
}

static bool is_late(const struct train_tensor *x)
{
    return x->param && !x->param->is_vector;
}

static void bind(struct train_tensors *t, struct train_tensor *x)
{
    x->p = t->p + x->at;
    x->g = is_late(x) ? NULL : t->g + x->at - t->n_late;
    x->late = (struct param_late){.of = x->param};
}

int train_tensors_alloc(struct train_tensors *t, struct err *e)
{
    t->n_decay = place(t, true, 0);
    t->n_elem = place(t, false, t->n_decay);
    t->n_late = t->list.n && is_late(&t->list.at[0]) ? t->n_decay : 0;
    t->bytes = (size_t)(4 * t->n_elem - t->n_late) * sizeof(float);
    t->block = device_alloc(t->device, t->bytes, "what is trained", e);
    if (!t->block)
        return -1;
    t->p = t->block;
    t->m = t->p + t->n_elem;
    t->v = t->m + t->n_elem;
    t->g = t->v + t->n_elem;
    for (size_t i = 0; i < t->list.n; i++)
        bind(t, &t->list.at[i]);
    return 0;
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
