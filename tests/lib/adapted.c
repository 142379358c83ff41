/* SPDX-License-Identifier: Apache-2.0
 *
 * See adapted.h.
 */
#include "tests/lib/adapted.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
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

float *adapted_prompt(struct golden *g, const char *dir, int64_t *n)
{
    int32_t token[ADAPTED_TOK];
    *n = golden_ids(&g->root, "prompt", token, ADAPTED_TOK);
    float *to = xcalloc((size_t)(*n * g->model->cfg.n_vocab), sizeof *to);
    struct adapter *a = dir ? adapted_load(g->model, dir) : NULL;
    struct runner *r = adapted_runner(g, false);
    adapted_step(g, r, &(struct adapted_part){a, token, 0, *n, 0}, 1, to);
    runner_free(r);
    adapter_unref(a);
    return to;
}

void adapted_same_rows(struct golden *g, struct runner *r, struct runner *eager,
                       const struct adapted_part *p, int n_part, int64_t n_row)
{
    int64_t v = g->model->cfg.n_vocab;
    float *all = xcalloc((size_t)(n_row * v), sizeof *all), *at = all;
    float *one = xcalloc((size_t)(n_row * v), sizeof *one);
    adapted_step(g, eager, p, n_part, one);
    adapted_step(g, r, p, n_part, all);
    assert_memory_equal(all, one, (size_t)(n_row * v) * sizeof *all);
    for (int i = 0; i < n_part; at += p[i++].n * v) {
        adapted_step(g, r, &p[i], 1, one);
        assert_memory_equal(at, one, (size_t)(p[i].n * v) * sizeof *one);
    }
    free(all);
    free(one);
}
