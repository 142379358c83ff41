/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks share a model of every family: pass `shard` puts in two all-reduces for each dense
 * layer and no more, moves what these must move, and gives every rank its own part of each matrix.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/cost.h"
#include "engine/graph/passes.h"
#include "engine/model/part.h"
#include "engine/run/ranks.h"
#include "engine/train/function.h"
#include "tests/lib/tiny.h"

static const enum config_family families[] = {
    FAMILY_LLAMA,     FAMILY_QWEN2, FAMILY_QWEN3,   FAMILY_GPT2,    FAMILY_MISTRAL,
    FAMILY_MINISTRAL, FAMILY_OLMO2, FAMILY_SMOLLM3, FAMILY_GRANITE, FAMILY_GEMMA2,
    FAMILY_GEMMA3,    FAMILY_PHI3,  FAMILY_LFM2,    FAMILY_BERT};
static const int sizes[] = {2, 3, 4, 6};

static struct config config_of(enum config_family f)
{
    struct config c = tiny_config(f);
    c.n_kv_head = 6;
    return c;
}

/* The graph of a rank. */
struct view {
    struct model_share share;
    struct model *model;
    struct graph_ranks ranks;
    struct graph g;
};

static void view_init(struct view *v, const struct config *c, int rank, int size)
{
    struct err e = ERR_INIT;
    struct model_options o = {.type = K_F32, .kv_type = -1};
    struct op_ranks at = {.rank = rank, .size = size};
    struct graph_recorder rec;
    assert_good(ranks_share(&v->share, c, &o, &at, &e), &e);
    o.share = &v->share;
    v->model = model_new(c, &o, NULL, &e);
    assert_non_null(v->model);
    graph_init(&v->g);
    graph_recorder_init(&rec, &v->g);
    graph_mark_output(&v->g, model_build(v->model, &rec.b,
                                         c->family == FAMILY_BERT ? MODEL_EMBED : MODEL_LOGITS));
    assert_true(ranks_of_model(v->model, &v->ranks));
    v->g.ranks = &v->ranks;
    assert_good(passes_run(&v->g, PASS_ALL, PASS_COUNT - 1, &e), &e);
}

static void view_release(struct view *v)
{
    graph_release(&v->g);
    model_free(v->model);
    ranks_share_release(&v->share);
}

static int count(const struct graph *g, enum op_id op, int layer)
{
    int n = 0;
    for (size_t i = 0; i < g->node.n; i++)
        n += g->node.at[i].op.op == op && g->node.at[i].layer == layer;
    return n;
}

/* Faults: a collective that another layout would spare, one for each reader, one that is missing;
 * a cost that is not that of the collectives. */
static void two_for_each_layer(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct config c = config_of(families[f]);
            bool is_encoder = c.family == FAMILY_BERT;
            struct view v;
            if (c.qk_norm == QK_NORM_WHOLE) /* norms that need their whole width */
                continue;
            double moved = 0, once = 2.0 * (sizes[k] - 1) / sizes[k] * 4 * (double)c.d_model;
            view_init(&v, &c, 0, sizes[k]);
            for (int l = 0; l < (int)c.n_layer; l++) {
                assert_int_equal(count(&v.g, OP_reduce, l), 2);
                assert_int_equal(count(&v.g, OP_collect, l), 0);
            }
            assert_int_equal(count(&v.g, OP_reduce, -1), 1); /* the embedding */
            assert_int_equal(count(&v.g, OP_collect, -1), is_encoder ? 0 : 1);
            struct graph_cost *cost = graph_costs(&v.g, 1, 1);
            for (size_t i = 0; i < v.g.node.n; i++)
                if (v.g.node.at[i].op.op == OP_reduce)
                    moved += cost[i].moved;
            assert_true(fabs(moved - once * (double)(2 * c.n_layer + 1)) < 1);
            free(cost);
            view_release(&v);
        }
}

/* Faults: outputs that two ranks have or none; a head that is cut; a matrix that nobody shares. */
static void parts_make_the_whole(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct config c = config_of(families[f]);
            int64_t *sum = NULL;
            int32_t heads = 0;
            for (int r = 0; r < sizes[k]; r++) {
                struct view v;
                view_init(&v, &c, r, sizes[k]);
                if (!sum)
                    sum = calloc((size_t)v.model->n_param, sizeof *sum);
                for (int32_t i = 0; i < v.model->n_param; i++) {
                    const struct param *p = &v.model->param[i], *q = &v.model->part[i];
                    sum[i] += q->n * q->k;
                    assert_true(p->is_vector || p->n < sizes[k] || q->n * q->k < p->n * p->k);
                }
                int64_t at = 0;
                while (v.model->layer[at].mixer != MIXER_ATTENTION)
                    at++;
                heads += v.model->layer[at].n_kv_here;
                for (int32_t i = 0; i < v.model->n_param && r == sizes[k] - 1; i++)
                    if (!v.model->param[i].is_vector && v.model->param[i].n >= sizes[k])
                        assert_int_equal(sum[i], v.model->param[i].n * v.model->param[i].k);
                view_release(&v);
            }
            assert_int_equal(heads, c.n_kv_head);
            free(sum);
        }
}

/* Faults: heads that are cut where there are fewer than ranks. */
static void few_key_heads(void **state)
{
    struct config c = tiny_config(FAMILY_LLAMA);
    struct view v;
    (void)state;
    c.n_kv_head = 2;
    view_init(&v, &c, 1, 3);
    assert_int_equal(v.model->layer[0].n_kv_here, 2);
    for (int l = 0; l < (int)c.n_layer; l++)
        assert_true(count(&v.g, OP_reduce, l) <= 2);
    view_release(&v);
}

/* Faults: a run that begins in the wrong section; a share that is told without its sections, or
 * with one where there is none. */
static void runs_of_sections(void **state)
{
    struct param p = {.n = 60, .k = 8, .section = {30, 15, 15}};
    struct param_share s = {.cut = PARAM_OUTPUTS, .pieces = 3};
    struct op_ranks at = {.rank = 1, .size = 2};
    struct part_run run[PART_RUN_MAX];
    (void)state;
    struct part part = part_of(&p, &s, &at); /* pieces 1 and 2 of each section */
    assert_int_equal(part.n_output, 3);
    assert_int_equal(part.output[1].lo, 35);
    assert_int_equal(part.output[1].n, 10);
    part_describe(&p, &part);
    assert_int_equal(p.n, 40);
    assert_true(p.section[0] == 20 && p.section[1] == 10 && p.section[2] == 10);
    assert_int_equal(part_cut(&part, 15, 35, run), 3);
    assert_int_equal(run[0].lo, 25);
    assert_int_equal(run[0].n, 5);
    assert_int_equal(run[2].lo, 50);
    assert_int_equal(run[2].n, 5);
    struct param whole = {.n = 60, .k = 8};
    part = part_of(&whole, &s, &at);
    part_describe(&whole, &part);
    assert_true(whole.n == 40 && whole.section[0] == 0);
}

/* The graph that is trained. Faults: a sum for each reader of a value, one that is missing, one in
 * a graph that nobody walks back; a dropout that q, k and v do not share the sum of. */
static void two_on_the_way_back(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (int dropout = 0; dropout < 2; dropout++) {
            struct config c = config_of(families[f]);
            struct model_options o = {.type = K_F32, .kv_type = -1};
            struct op_ranks at = {.rank = 1, .size = 2};
            struct train_options t = {.lora = {.rank = 4, .dropout = dropout * 0.1}};
            struct model_share share;
            struct train_function fn;
            struct err e = ERR_INIT;
            if (c.family == FAMILY_BERT || c.qk_norm == QK_NORM_WHOLE)
                continue;
            assert_good(ranks_share_for(&share, &c, &o, &at, MODEL_LOSS, &e), &e);
            o.share = &share;
            struct model *m = model_new(&c, &o, NULL, &e);
            assert_non_null(m);
            assert_good(train_function_init(&fn, m, &t, &e), &e);
            assert_int_equal(share.param[model_lm_head(m)->index].cut, PARAM_OUTPUTS);
            assert_int_equal(count(&fn.run[RUN_TRAINED], OP_spread, -1),
                             1); /* what the head reads */
            for (int l = 0; l < (int)c.n_layer; l++) {
                /* what is split is whole for its dropout: two more values, and their gradients */
                assert_int_equal(count(&fn.run[RUN_TRAINED], OP_spread, l), 2 + 2 * dropout);
                assert_int_equal(count(&fn.run[RUN_TRAINED], OP_collect, l), 2 * dropout);
                assert_int_equal(count(&fn.run[RUN_TRAINED], OP_reduce, l), 2);
                assert_int_equal(count(&fn.run[RUN_JUDGED], OP_spread, l), 0);
            }
            train_function_release(&fn);
            model_free(m);
            ranks_share_release(&share);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_for_each_layer),  cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(few_key_heads),       cmocka_unit_test(runs_of_sections),
        cmocka_unit_test(two_on_the_way_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
