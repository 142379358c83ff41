/* SPDX-License-Identifier: Apache-2.0
 *
 * Halves of adapters, name by name.
 */
#include "tests/lib/golden_halves.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "tests/lib/golden.h"
#include "tests/lib/test.h"

enum { PATH_BYTES = 256 };

/* Calls f with each tensor and the file's of the same name. */
static void each_half(struct trainer *t, const char *path,
                      void (*f)(struct train_tensor *x, const float *of_file))
{
    struct err e = ERR_INIT;
    struct train_tensors *on = &trainer_subject(t)->tensors;
    struct weights *w = weights_open_file(path, &e);
    assert_good(w ? 0 : -1, &e);
    assert_int_equal(weights_count(w), on->list.n);
    for (size_t i = 0; i < on->list.n; i++) {
        struct train_tensor *x = &on->list.at[i];
        char name[PATH_BYTES];
        snprintf(name, sizeof name, "base_model.model.model.%s", x->name);
        const struct weight *from = weights_get(w, name);
        assert_non_null(from);
        assert_int_equal(weight_rows(from) * weight_row_len(from), x->rows * x->cols);
        float *of_file = try_alloc((size_t)(x->rows * x->cols), sizeof *of_file, "half", &e);
        assert_good(weight_read_f32(from, 0, weight_rows(from), of_file, &e), &e);
        f(x, of_file);
        mem_free(of_file);
    }
    weights_close(w);
}

static void put_half(struct train_tensor *x, const float *of_file)
{
    memcpy(x->p, of_file, (size_t)(x->rows * x->cols) * sizeof *of_file);
}

static void check_half(struct train_tensor *x, const float *of_file)
{
    golden_near(x->name, x->p, of_file, x->rows * x->cols, 1e-3);
}

void golden_halves_take(struct trainer *t, const char *path)
{
    each_half(t, path, put_half);
}

void golden_halves_check(struct trainer *t, const char *path)
{
    each_half(t, path, check_half);
}
