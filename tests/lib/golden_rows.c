/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a golden's rows.
 */
#include "tests/lib/golden_rows.h"

#include <string.h>

#include "engine/base/mem.h"
#include "tests/lib/test.h"

/* Where a golden has no rows: what comes next in its prompt, and in the prompt but for its first.
 */
static void take_prompt(struct golden_rows *r, const struct golden *g)
{
    for (int64_t i = 0; i < 2; i++) {
        int32_t id[GOLDEN_ROW_MAX];
        int64_t n = golden_ids(&g->root, "prompt", id, GOLDEN_ROW_MAX) - i;
        memcpy(r->id[i], id + i, (size_t)n * sizeof *id);
        memcpy(r->label[i], id + i + 1, (size_t)(n - 1) * sizeof *id);
        r->label[i][n - 1] = -1;
        r->row[i] = (struct train_row){.id = r->id[i],
                                       .label = r->label[i],
                                       .logprob = r->logprob[i],
                                       .n = n,
                                       .key = (uint64_t)i};
    }
    r->n = 2;
}

struct golden_rows *golden_rows_new(const struct golden *g)
{
    struct golden_rows *r = xcalloc(1, sizeof *r);
    struct err e = ERR_INIT;
    struct json list, v;
    if (!json_member(&g->root, "rows").node) {
        take_prompt(r, g);
        return r;
    }
    assert_good(json_get(&g->root, "rows", JSON_ARRAY, &list, &e), &e);
    json_each(v, list)
    {
        assert_true(r->n < GOLDEN_ROWS);
        int64_t i = r->n++, n = golden_ids(&v, "ids", r->id[i], GOLDEN_ROW_MAX);
        golden_ids(&v, "labels", r->label[i], GOLDEN_ROW_MAX);
        for (int64_t k = 0; k < n; k++)
            r->label[i][k] = r->label[i][k] < 0 ? -1 : r->label[i][k];
        r->row[i] = (struct train_row){.id = r->id[i],
                                       .label = r->label[i],
                                       .logprob = r->logprob[i],
                                       .n = n,
                                       .key = (uint64_t)i};
    }
    return r;
}
