/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops that move values between ranks, run op by op by three threads.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/op/collective.h"
#include "engine/op/ops.h"

enum { RANKS = 3, ROWS = 5, COLS = 7, VOCAB = 4 };

struct rank {
    struct comm *comm;
    int at;
    float sum[ROWS * COLS], whole[ROWS * COLS], x[ROWS * COLS], grad[ROWS * COLS];
    float spread[ROWS * COLS], spread_grad[ROWS * COLS];
    int64_t grad_cols;
    struct err err;
    int rc;
};

static void fill_table(struct k_weight *w, struct device *d, void *data)
{
    float src[VOCAB * COLS];
    for (int i = 0; i < VOCAB * COLS; i++)
        src[i] = (float)(i * i % 31) - 7.5f;
    k_weight_bind(w, K_F32, VOCAB, COLS, data);
    struct k_weight_pack a = {
        .src = src, .src_type = K_F32, .ld_src = COLS, .w = *w, .n_src = VOCAB};
    kernel_run(device_kernels(d), K_weight_pack, &a, NULL);
}

static void keep(struct eager *g, struct val v, float *to)
{
    struct op_view view = eager_view(g, v);
    for (int64_t i = 0; i < ROWS; i++)
        memcpy(to + i * COLS, view.p + i * view.ld, COLS * sizeof *to);
}

/* x (rank + 1), summed; and 2 x from the columns that each has; and how its gradient comes apart.
 */
static void run_ops(struct rank *r, struct eager *g, const struct param *table, struct batch *batch)
{
    struct op_ranks at = {.comm = r->comm, .rank = r->at, .size = RANKS};
    struct op_reduce_attr reduce = {.ranks = at};
    struct op_collect_attr collect = {.ranks = at, .cols = COLS, .pieces = COLS};
    int64_t lo = param_bound(COLS, COLS, r->at, RANKS),
            hi = param_bound(COLS, COLS, r->at + 1, RANKS);
    float seed[ROWS * COLS];
    eager_begin(g, batch, &(struct eager_options){.wants_grad = true});
    struct builder *b = eager_builder(g);
    struct val x = op_embed(b, OP_IDS_TOKEN, table);
    keep(g, x, r->x);
    keep(g, op_reduce(b, op_scale(b, x, (float)(r->at + 1)), &reduce), r->sum);
    struct val part = op_slice(b, x, lo, hi - lo), own = op_add(b, part, part);
    struct val whole = op_collect(b, own, &collect);
    keep(g, whole, r->whole);
    for (int i = 0; i < ROWS * COLS; i++)
        seed[i] = (float)i;
    r->rc = b->failed || eager_seed(g, whole, seed, &r->err) || eager_backward(g, &r->err) ? -1 : 0;
    struct op_view grad = eager_grad(g, own);
    r->grad_cols = hi - lo;
    for (int64_t i = 0; i < ROWS && !r->rc; i++)
        memcpy(r->grad + i * r->grad_cols, grad.p + i * grad.ld,
               (size_t)r->grad_cols * sizeof *r->grad);
    eager_end(g);
}

/* A value that each rank reads for other columns: it, and its gradient, to which rank r brings
 * (r + 1) i. */
static void run_spread(struct rank *r, struct eager *g, const struct param *table,
                       struct batch *batch)
{
    struct op_spread_attr spread = {{.comm = r->comm, .rank = r->at, .size = RANKS}};
    float seed[ROWS * COLS];
    eager_begin(g, batch, &(struct eager_options){.wants_grad = true});
    struct builder *b = eager_builder(g);
    struct val x = op_embed(b, OP_IDS_TOKEN, table), y = op_spread(b, x, &spread);
    keep(g, y, r->spread);
    for (int i = 0; i < ROWS * COLS; i++)
        seed[i] = (float)((r->at + 1) * i);
    if (b->failed || eager_seed(g, y, seed, &r->err) || eager_backward(g, &r->err))
        r->rc = -1;
    else
        memcpy(r->spread_grad, eager_grad(g, x).p, sizeof r->spread_grad);
    eager_end(g);
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    int32_t token[ROWS] = {0, 3, 1, 1, 2};
    struct batch batch = {.n = {[DIM_TOK] = ROWS, [DIM_SEQ] = 1}, .token = token};
    struct pool *pool = pool_new(1, false, &r->err);
    struct device *d = device_cpu_new(pool, NULL, &r->err);
    struct stream *s = stream_new(d, &r->err);
    struct eager *g = eager_new(s, &r->err);
    void *data = device_alloc(d, k_weight_bytes(K_F32, VOCAB, COLS), "a table", &r->err);
    float grad[VOCAB * COLS] = {0};
    struct param table = {.name = "table", .lora = -1, .n = VOCAB, .k = COLS, .grad = grad};
    fill_table(&table.w, d, data);
    run_ops(r, g, &table, &batch);
    if (!r->rc)
        run_spread(r, g, &table, &batch);
    device_mem_free(d, data);
    eager_free(g);
    stream_free(s);
    device_free(d);
    pool_free(pool);
    comm_free(r->comm);
    return NULL;
}

/* Faults: columns at another rank's place, parts of unequal width, a sum of some ranks, a gradient
 * that is not this rank's. */
static void reduce_and_collect(void **state)
{
    struct rank r[RANKS];
    struct comm *end[RANKS];
    pthread_t thread[RANKS];
    struct err e = ERR_INIT;
    (void)state;
    assert_good(comm_local_new(RANKS, NULL, end, &e), &e);
    for (int i = 0; i < RANKS; i++) {
        r[i] = (struct rank){.comm = end[i], .at = i, .err = ERR_INIT};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &r[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < RANKS; i++) {
        int64_t lo = param_bound(COLS, COLS, i, RANKS);
        assert_good(r[i].rc, &r[i].err);
        for (int k = 0; k < ROWS * COLS; k++)
            assert_true(r[i].whole[k] == r[0].x[k] * 2 && r[i].sum[k] == r[0].x[k] * 6 &&
                        r[i].spread[k] == r[0].x[k] && r[i].spread_grad[k] == (float)(6 * k));
        for (int64_t k = 0; k < ROWS * r[i].grad_cols; k++)
            assert_true(r[i].grad[k] ==
                        (float)(k / r[i].grad_cols * COLS + lo + k % r[i].grad_cols));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reduce_and_collect)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
