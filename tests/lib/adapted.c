/* SPDX-License-Identifier: Apache-2.0
 *
 * See adapted.h.
 */
#include "tests/lib/adapted.h"

#include <string.h>

#include "engine/graph/passes.h"
#include "tests/lib/test.h"

struct adapter *adapted_load(const struct model *m, const char *dir)
{
    struct err e = ERR_INIT;
    static struct adapter_budget plenty = {.bytes_max = 1 << 30};
    struct adapter_options o = {
        .name = "tuned", .version = 7, .rank_max = ADAPTED_RANK, .budget = &plenty};
    struct adapter *a = adapter_load(m, dir, &o, &e);
    assert_good(a ? 0 : -1, &e);
    return a;
}

struct runner *adapted_runner(struct golden *g, bool is_eager)
{
    struct err e = ERR_INIT;
    struct runner_options o = {.cap = {[DIM_TOK] = ADAPTED_TOK,
                                       [DIM_OUT] = ADAPTED_TOK,
                                       [DIM_SEQ] = ADAPTED_SEQS,
                                       [DIM_GROUP] = ADAPTED_SEQS},
                               .n_cell = ADAPTED_SEQS * ADAPTED_TOK / K_CELL,
                               .is_eager = is_eager,
                               .passes = PASS_ALL,
                               .lora_rank_max = ADAPTED_RANK,
                               .output = MODEL_LOGITS};
    struct runner *r = runner_new(g->model, &o, g->stream, &e);
    assert_good(r ? 0 : -1, &e);
    return r;
}

void adapted_step(struct golden *g, struct runner *r, const struct adapted_part *p, int n,
                  float *to)
{
    struct batch *b = runner_batch(r);
    struct err e = ERR_INIT;
    struct op_view out;
    int64_t at = 0;
    b->q_start[0] = 0;
    for (int s = 0; s < n; s++) {
        adapter_group(g->model, p[s].adapter, at, at + p[s].n, b, s);
        for (int64_t i = 0; i < p[s].n; i++, at++) {
            b->token[at] = p[s].token[p[s].pos + i];
            b->pos[at] = (int32_t)(p[s].pos + i);
            b->seq_of[at] = s;
            b->segment[at] = 0;
            b->out_row[at] = (int32_t)at;
        }
        for (int32_t c = 0; c < ADAPTED_TOK / K_CELL && c < b->cell_stride; c++)
            b->cell[s * b->cell_stride + c] = p[s].cell + c;
        b->q_start[s + 1] = (int32_t)at;
        b->kv_len[s] = (int32_t)(p[s].pos + p[s].n);
    }
    b->n[DIM_TOK] = b->n[DIM_OUT] = at;
    b->n[DIM_SEQ] = b->n[DIM_GROUP] = n;
    assert_good(runner_step(r, &out, &e), &e);
    for (int64_t i = 0; i < at; i++)
        memcpy(to + i * out.shape.cols, out.p + i * out.ld, (size_t)out.shape.cols * sizeof(float));
}
