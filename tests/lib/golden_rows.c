/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a golden's rows.
 */
#include "tests/lib/golden_rows.h"

#include "engine/base/mem.h"
#include "tests/lib/test.h"

struct golden_rows *golden_rows_new(const struct golden *g)
{
    struct golden_rows *r = xcalloc(1, sizeof *r);
    struct err e = ERR_INIT;
    struct json list, v;
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
