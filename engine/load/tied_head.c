/* SPDX-License-Identifier: Apache-2.0
 *
 * See tied_head.h. Opening a model reads no tensor whole, so rows are looked at that lie evenly in
 * the table: a head that was trained differs in all of them.
 */
#include "engine/load/tied_head.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/weights.h"

enum { ROWS = 256, NAME_BYTES = 512 };

/* The weight of the module that is called so in whatever part of the model, packed or not; NULL:
 * there is none. */
static const struct weight *find(const struct weights *w, const char *module)
{
    for (size_t i = 0; i < weights_count(w); i++) {
        const char *name = weights_at(w, i)->t->name, *at = strstr(name, module);
        char whole[NAME_BYTES];
        if (!at || (at != name && at[-1] != '.') || at[strlen(module)] != '.')
            continue;
        snprintf(whole, sizeof whole, "%.*s%s.weight", (int)(at - name), name, module);
        const struct weight *found = weights_get(w, whole);
        if (found)
            return found;
    }
    return NULL;
}

static bool have_one_shape(const struct st_tensor *a, const struct st_tensor *b)
{
    return a->rank == 2 && b->rank == 2 && a->dim[0] == b->dim[0] && a->dim[1] == b->dim[1];
}

/* two: room for a row of each. */
static int compare(const struct weight *a, const struct weight *b, float *two, bool *differ,
                   struct err *e)
{
    int64_t n_row = weight_rows(a), len = weight_row_len(a), n = n_row < ROWS ? n_row : ROWS;
    for (int64_t i = 0; i < n && !*differ; i++) {
        int64_t row = n > 1 ? i * (n_row - 1) / (n - 1) : 0;
        if (weight_read_f32(a, row, 1, two, e) || weight_read_f32(b, row, 1, two + len, e))
            return -1;
        *differ = memcmp(two, two + len, (size_t)len * sizeof *two) != 0;
    }
    return 0;
}

int tied_head_is_apart(const struct weights *w, bool *is_apart, struct err *e)
{
    const struct weight *head = find(w, "lm_head"), *embed = find(w, "embed_tokens");
    if (!embed)
        embed = find(w, "wte");
    *is_apart = false;
    if (!head || !embed)
        return 0;
    if (!have_one_shape(head->t, embed->t)) {
        *is_apart = true;
        return 0;
    }
    float *two = try_alloc((size_t)weight_row_len(head), 2 * sizeof *two, "rows of a head", e);
    int rc = two ? compare(embed, head, two, is_apart, e) : -1;
    mem_free(two);
    return rc;
}
