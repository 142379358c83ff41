/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of graphs, what the passes make of a real model's, the memory plan, and a run that
 * allocates nothing.
 */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/memory.h"
#include "engine/graph/passes.h"
#include "engine/graph/print.h"
#include "engine/op/norm.h"
#include "engine/op/rope_kv.h"
#include "tests/lib/tiny.h"

static void record(struct graph *g, const struct model *m, enum model_output output, bool lora)
{
    struct graph_recorder rec;
    graph_init(g);
    graph_recorder_init(&rec, g);
    rec.b.has_lora = lora;
    rec.b.lora_rank_max = 8;
    graph_mark_output(g, model_build(m, &rec.b, output));
    assert_false(rec.b.failed);
}

static int count_op(const struct graph *g, enum op_id op)
{
    int n = 0;
    for (size_t i = 0; i < g->node.n; i++)
        n += g->node.at[i].op.op == op;
    return n;
}

static int count_in_place(const struct graph *g)
{
    int n = 0;
    for (size_t i = 0; i < g->node.n; i++)
        n += g->node.at[i].in_place[0] >= 0;
    return n;
}

/* A model without memory: its parameters have addresses that say who is whose neighbour. */
static struct model *model_of(const struct config *c, enum k_type type)
{
    struct err e = ERR_INIT;
    struct model_options o = {.type = (int)type, .kv_type = -1};
    struct model *m = model_new(c, &o, NULL, &e);
    assert_non_null(m);
    return m;
}

/* Neighbours are joined only where panels are whole, so the widths are multiples of 32. */
static struct config whole_panels(enum config_family f)
{
    struct config c = tiny_config(f);
    c.d_model = 64;
    c.d_ff = 96;
    c.n_head = 4;
    c.n_kv_head = f == FAMILY_LLAMA ? 2 : 4;
    c.d_head = 16;
    return c;
}

/* Faults: a pass that the command line can't name; one that is in the table and does not run. */
static void passes_have_names(void **state)
{
    static const char *const names[] = {"shard",     "fold",    "common",   "bias",
                                        "join",      "gate",    "residual", "norm",
                                        "shared_kv", "rope_kv", "dead",     "in_place"};
    (void)state;
    assert_int_equal(sizeof names / sizeof *names, PASS_COUNT);
    for (int i = 0; i < PASS_COUNT; i++) {
        assert_int_equal(pass_find(names[i]), i);
        assert_string_equal(pass_name((enum pass_id)i), names[i]);
    }
    assert_int_equal(pass_find("record"), -1);
}

/* Faults: a pass that stops finding what it is for. */
static void passes_find_their_work(void **state)
{
    struct config c = whole_panels(FAMILY_LLAMA);
    struct model *m = model_of(&c, K_BF16);
    struct err e = ERR_INIT;
    struct graph g;
    int n = (int)c.n_layer;
    (void)state;
    record(&g, m, MODEL_LOGITS, false);
    assert_int_equal(count_op(&g, OP_linear), 7 * n + 1);
    assert_int_equal(count_op(&g, OP_round), 7 * n + 1);
    assert_int_equal(count_op(&g, OP_add), 2 * n);
    assert_good(passes_run(&g, PASS_ALL, PASS_COUNT - 1, &e), &e);
    assert_int_equal(count_op(&g, OP_linear), 4 * n + 1); /* qkv, o, gate and up, down; head */
    assert_int_equal(count_op(&g, OP_round), 3 * n + 1);  /* the gate's is in the product */
    assert_int_equal(count_op(&g, OP_swiglu), 0);
    assert_int_equal(count_op(&g, OP_add), 0);
    assert_int_equal(count_op(&g, OP_rope), 0);
    assert_int_equal(count_op(&g, OP_rope_kv), n);
    assert_true(count_in_place(&g) >= 3 * n); /* two residuals, q turned */
    graph_release(&g);

    record(&g, m, MODEL_LOGITS, true);
    assert_good(passes_run(&g, PASS_ALL, PASS_COUNT - 1, &e), &e);
    assert_int_equal(count_op(&g, OP_lora), 7 * n);
    assert_int_equal(count_op(&g, OP_swiglu), n); /* adapters add to what it reads */
    assert_int_equal(count_op(&g, OP_add), 1);    /* behind adapters the norm takes the sum, but for
                                                   * the last, which a gather stands behind */
    graph_release(&g);
    model_free(m);
}

/* What becomes op_rope_kv. Faults: keys that are turned by the queries' table, though theirs is
 * another. */
static void heads_of_other_tables_stay_apart(void **state)
{
    const float table[2] = {1, 1};
    struct op_attn_attr at = {.n_head = 2, .n_kv_head = 1, .d_head = 4};
    struct op_rope_attr turn = {.cos = table, .sin = table, .n_head = 2, .d_head = 4, .d_rot = 4};
    struct op_node attn = {.op = OP_attn, .n_in = 3}, q = {.op = OP_rope, .n_in = 1}, k = q, made;
    struct op_rope_kv_from f = {.attn = &attn, .rope_q = &q, .rope_k = &k};
    (void)state;
    memcpy(attn.attr, &at, sizeof at);
    memcpy(q.attr, &turn, sizeof turn);
    turn.n_head = 1;
    memcpy(k.attr, &turn, sizeof turn);
    assert_int_equal(op_rope_kv_set(&made, &f), 0);
    assert_int_equal(made.op, OP_rope_kv);
    turn.sin = table + 1;
    memcpy(k.attr, &turn, sizeof turn);
    assert_int_equal(op_rope_kv_set(&made, &f), -1);
}

/* Norms in front of them. Faults: one with another's epsilon; one of whole rows, done by heads. */
static void only_norms_of_heads_come_along(void **state)
{
    const struct param of_heads = {.n = 4}, of_rows = {.n = 8};
    const struct norm_attr good = {.weight = &of_heads, .d = 4, .eps = 1},
                           bad[] = {{.weight = &of_heads, .d = 4, .eps = 2},
                                    {.weight = &of_rows, .d = 8, .eps = 1},
                                    {.d = 4, .eps = 1}};
    struct op_attn_attr at = {.n_head = 2, .n_kv_head = 2, .d_head = 4};
    struct op_rope_attr turn = {.n_head = 2, .d_head = 4, .d_rot = 4};
    struct op_node attn = {.op = OP_attn, .n_in = 3}, rope = {.op = OP_rope, .n_in = 1, .in = {5}};
    struct op_node norm = {.op = OP_rmsnorm, .n_in = 1, .in = {4}}, other = norm, made;
    struct op_rope_kv_from f = {
        .attn = &attn, .rope_q = &rope, .rope_k = &rope, .norm_q = &norm, .norm_k = &other};
    (void)state;
    memcpy(attn.attr, &at, sizeof at);
    memcpy(rope.attr, &turn, sizeof turn);
    memcpy(norm.attr, &good, sizeof good);
    memcpy(other.attr, &good, sizeof good);
    assert_int_equal(op_rope_kv_set(&made, &f), 0);
    assert_true(made.in[0] == 4 && made.in[1] == 4);
    for (int i = 0; i < 3; i++) {
        memcpy(other.attr, &bad[i], sizeof bad[i]);
        assert_int_equal(op_rope_kv_set(&made, &f), 0);
        assert_true(made.in[0] == 5 && made.in[1] == 5); /* they stay where they are */
    }
}

static int32_t find_op(const struct graph *g, enum op_id op)
{
    int32_t i = 0;
    while (g->node.at[i].op.op != op)
        i++;
    return i;
}

/* What the graph has of these behind all passes, where the first layer's `kept` is an output. */
static int count_with(const struct model *m, enum op_id kept, int input, enum op_id counted)
{
    struct err e = ERR_INIT;
    struct graph g;
    record(&g, m, MODEL_LOGITS, false);
    const struct op_node *n = &g.node.at[find_op(&g, kept)].op;
    graph_mark_output(&g, (struct val){.id = input < 0 ? n->out[0] : n->in[input]});
    assert_good(passes_run(&g, PASS_ALL, PASS_COUNT - 1, &e), &e);
    int count = count_op(&g, counted);
    graph_release(&g);
    return count;
}

/* Faults: a gate, or the turning of heads, that is done twice because somebody else reads it;
 * halves that are taken for each other. */
static void what_others_read_stays(void **state)
{
    struct config c = whole_panels(FAMILY_LLAMA);
    struct model *m = model_of(&c, K_BF16);
    struct err e = ERR_INIT;
    struct graph g;
    int n = (int)c.n_layer;
    (void)state;
    for (int input = -1; input < 2; input++) {
        assert_int_equal(count_with(m, OP_swiglu, input, OP_swiglu), 1);
        assert_int_equal(count_with(m, OP_swiglu, input, OP_linear), 4 * n + 1);
    }
    assert_int_equal(count_with(m, OP_rope, -1, OP_rope_kv), n - 1);
    assert_int_equal(count_with(m, OP_rope, -1, OP_rope), 2);
    record(&g, m, MODEL_LOGITS, false);
    struct op_node *gate = &g.node.at[find_op(&g, OP_swiglu)].op;
    int32_t up = gate->in[1];
    gate->in[1] = gate->in[0];
    gate->in[0] = up;
    assert_good(passes_run(&g, PASS_ALL, PASS_COUNT - 1, &e), &e);
    assert_int_equal(count_op(&g, OP_swiglu), 1);
    graph_release(&g);
    model_free(m);
}

/* Faults: a part that nobody reads and that still runs; one with an effect that is dropped. */
static void dead_parts_go(void **state)
{
    struct config c = whole_panels(FAMILY_LLAMA);
    struct model *m = model_of(&c, K_BF16);
    struct err e = ERR_INIT;
    struct graph g;
    (void)state;
    record(&g, m, MODEL_LOGITS, false);
    g.output.n = 0; /* nobody wants the answer, but the cells are to be filled */
    assert_good(passes_run(&g, PASS_ALL, PASS_dead, &e), &e);
    assert_int_equal(count_op(&g, OP_attn), (int)c.n_layer);
    assert_int_equal(count_op(&g, OP_gather), 0);
    assert_int_equal(count_op(&g, OP_linear), 4 * (int)c.n_layer - 3); /* last layer: q, k, v */
    graph_release(&g);
    model_free(m);
}

/* Faults: a bias that stays behind, or is joined with the wrong neighbour's. */
static void biases_are_folded(void **state)
{
    struct config c = whole_panels(FAMILY_QWEN2);
    struct model *m = model_of(&c, K_INT8);
    struct err e = ERR_INIT;
    struct graph g;
    (void)state;
    record(&g, m, MODEL_LOGITS, false);
    assert_int_equal(count_op(&g, OP_bias), 3 * (int)c.n_layer);
    assert_good(passes_run(&g, PASS_ALL, PASS_COUNT - 1, &e), &e);
    assert_int_equal(count_op(&g, OP_bias), 0);
    assert_int_equal(count_op(&g, OP_linear), 4 * (int)c.n_layer + 1);
    graph_release(&g);
    model_free(m);
}

/* Faults: a verifier that lets a broken graph through. */
static void broken_graphs_are_refused(void **state)
{
    struct config c = whole_panels(FAMILY_LLAMA);
    struct model *m = model_of(&c, K_F32);
    struct err e = ERR_INIT;
    struct graph g;
    (void)state;
    record(&g, m, MODEL_LOGITS, false);
    assert_good(graph_verify(&g, &e), &e);
    struct graph_node saved = g.node.at[3];
    g.node.at[3].op.in[0] = (int32_t)g.value.n - 1; /* defined later */
    assert_err(graph_verify(&g, &e), &e, ERR_CORRUPT, "not defined before");
    g.node.at[3] = saved;
    g.value.at[saved.op.out[0]].shape.cols++;
    assert_err(graph_verify(&g, &e), &e, ERR_CORRUPT, "shape");
    g.value.at[saved.op.out[0]].shape.cols--;
    for (size_t i = 0; i < g.node.n; i++)
        if (g.node.at[i].op.op == OP_add) /* the old residual stream has no later reader */
            g.node.at[i].in_place[0] = 0;
    assert_good(graph_verify(&g, &e), &e);
    for (size_t i = 0; i < g.node.n; i++)
        if (g.node.at[i].op.op == OP_rope)
            g.node.at[i].in_place[0] = 1;
    assert_err(graph_verify(&g, &e), &e, ERR_CORRUPT, "may not overwrite");
    for (size_t i = 0; i < g.node.n; i++)
        if (g.node.at[i].op.op == OP_rope)
            g.node.at[i].in_place[0] = 0;
    assert_good(graph_verify(&g, &e), &e);
    graph_mark_output(&g, (struct val){.id = g.node.at[1].op.in[0]}); /* the embedding, kept */
    assert_err(graph_verify(&g, &e), &e, ERR_CORRUPT, "overwrites what is read later");
    graph_release(&g);
    model_free(m);
}

static void assert_apart(const struct graph *g, const struct graph_memory *mem, const int64_t *cap)
{
    struct graph_place *place = graph_places(g);
    int32_t *last = graph_last_uses(g), *end = xcalloc(g->value.n, sizeof *end);
    for (size_t v = 0; v < g->value.n; v++) {
        int32_t r = place[v].root,
                until = last[v] > g->value.at[v].def ? last[v] : g->value.at[v].def;
        end[r] = until > end[r] ? until : end[r];
    }
    for (size_t a = 0; a < g->value.n; a++) {
        for (size_t b = a + 1; b < g->value.n; b++) {
            if (place[a].root != (int32_t)a || place[b].root != (int32_t)b ||
                g->value.at[b].def > end[a] || g->value.at[a].def > end[b])
                continue;
            size_t na = op_shape_bytes(g->value.at[a].shape, cap[g->value.at[a].shape.rows]);
            size_t nb = op_shape_bytes(g->value.at[b].shape, cap[g->value.at[b].shape.rows]);
            assert_true(mem->value_at[a] + na <= mem->value_at[b] ||
                        mem->value_at[b] + nb <= mem->value_at[a]);
        }
    }
    free(end);
    free(place);
    free(last);
}

/* Fault: an output that goes as soon as nobody in the graph reads it. */
static void outputs_outlive_all_nodes(void **state)
{
    struct config c = whole_panels(FAMILY_LLAMA);
    struct model *m = model_of(&c, K_BF16);
    struct graph g;
    (void)state;
    record(&g, m, MODEL_LOGITS, false);
    int32_t logits = g.output.at[0], first = g.node.at[0].op.out[0];
    graph_mark_output(&g, (struct val){.id = first});
    int32_t *last = graph_last_uses(&g);
    assert_true(g.output.n == 2 && first != logits);
    assert_int_equal(last[logits], g.node.n);
    assert_int_equal(last[first], g.node.n);
    free(last);
    graph_release(&g);
    model_free(m);
}

/* Faults: two live values that share bytes. */
static void live_values_are_apart(void **state)
{
    static const enum config_family families[] = {FAMILY_LLAMA, FAMILY_GPT2, FAMILY_BERT};
    static const int64_t cap[DIM_COUNT] = {
        [DIM_TOK] = 33, [DIM_OUT] = 5, [DIM_SEQ] = 3, [DIM_GROUP] = 2};
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        struct config c = whole_panels(families[f]);
        struct model *m = model_of(&c, K_BF16);
        struct err e = ERR_INIT;
        for (int lora = 0; lora < 2; lora++) {
            struct graph g;
            struct graph_memory mem;
            record(&g, m, families[f] == FAMILY_BERT ? MODEL_EMBED : MODEL_LOGITS, lora);
            assert_good(passes_run(&g, PASS_ALL, PASS_COUNT - 1, &e), &e);
            assert_good(graph_memory_init(&mem, &g, cap, &e), &e);
            assert_true(mem.bytes >= mem.lower_bytes);
            assert_apart(&g, &mem, cap);
            graph_memory_release(&mem);
            graph_release(&g);
        }
        model_free(m);
    }
}

/* The promise for a 1B model: 512 tokens within 10% of what no plan can beat. */
static void one_billion_is_near_its_bound(void **state)
{
    struct config c = tiny_config(FAMILY_LLAMA);
    static const int64_t cap[DIM_COUNT] = {
        [DIM_TOK] = 512, [DIM_OUT] = 1, [DIM_SEQ] = 1, [DIM_GROUP] = 1};
    struct err e = ERR_INIT;
    struct graph g;
    struct graph_memory mem;
    (void)state;
    c.n_vocab = 128256;
    c.n_layer = 16;
    c.d_model = 2048;
    c.d_ff = 8192;
    c.n_head = 32;
    c.n_kv_head = 8;
    c.d_head = 64;
    c.is_tied = true;
    struct model *m = model_of(&c, K_BF16);
    record(&g, m, MODEL_LOGITS, false);
    assert_good(passes_run(&g, PASS_ALL, PASS_COUNT - 1, &e), &e);
    assert_good(graph_memory_init(&mem, &g, cap, &e), &e);
    print_message("1B at 512 tokens: %zu bytes, lower bound %zu\n", mem.bytes, mem.lower_bytes);
    assert_true((double)mem.bytes <= 1.1 * (double)mem.lower_bytes);
    graph_memory_release(&mem);
    graph_release(&g);
    model_free(m);
}

/* Faults: a run that takes memory, which the largest request would then take from the others. */
static void a_run_allocates_nothing(void **state)
{
    struct config c = tiny_config(FAMILY_LLAMA);
    struct err e = ERR_INIT;
    struct op_view out;
    int32_t token[64];
    struct tiny t;
    (void)state;
    tiny_init(&t, &c, K_BF16, 2, NULL);
    struct runner *r = tiny_runner(&t, 64, MODEL_LOGITS, false, PASS_ALL);
    tiny_tokens(t.model, token, 64);
    struct mem_stat before = mem_stat(), after;
    mem_peak_reset();
    for (int i = 1; i <= 64; i *= 2)
        assert_good(runner_feed(r, token, i, 0, i, &out, &e), &e);
    after = mem_stat();
    assert_int_equal(after.peak_bytes, before.now_bytes);
    assert_int_equal(after.n_block, before.n_block);
    runner_free(r);
    tiny_release(&t);
}

/* Faults: a band that does not lie behind its layer's boxes; two that touch in one shade. */
static void check_bands(const char *svg, int32_t n_layer)
{
    char shade[8], last[8] = "";
    int32_t n = 0;
    int y, text_y, layer;
    for (const char *at = svg; (at = strstr(at, "<rect x=\"0\" y=\"")); at++) {
        if (sscanf(at,
                   "<rect x=\"0\" y=\"%d\" width=\"%*d\" height=\"%*d\" fill=\"%7[^\"]\"/>"
                   "<text x=\"8\" y=\"%d\">layer %d",
                   &y, shade, &text_y, &layer) != 4)
            fail_msg("%.100s", at);
        char box[32];
        snprintf(box, sizeof box, "y=\"%d\" width=\"", y + 2);
        assert_true(strstr(at, box) && text_y == y + 16 && layer == n);
        assert_string_not_equal(shade, last);
        memcpy(last, shade, sizeof last);
        n++;
    }
    assert_true(n == n_layer && n > 2);
}

/* Faults: a box that is said to be of a pass and looks as it was recorded, or the other way. */
static void check_boxes(const char *svg)
{
    int n[2] = {0};
    char shade[8], by;
    for (const char *at = svg; (at = strstr(at, "<rect x=\"")); at++)
        if (sscanf(
                at,
                "<rect x=\"%*d\" y=\"%*d\" width=\"%*[^\"]\" height=\"%*d\" rx=\"3\" fill=\"%7[^\"]\"/>\n"
                "<text x=\"%*d\" y=\"%*d\">%*[^<]</text><text x=\"%*d\" y=\"%*d\">%c",
                shade, &by) == 2) {
            bool is_of_pass = by != '<' && by != ' ';
            assert_string_equal(shade, is_of_pass ? "#9cc3e6" : "#c9d6df");
            n[is_of_pass]++;
        }
    assert_true(n[0] > 2 && n[1] > 2);
}

/* Faults: a format that is not what it says; a parameter that an op does not name. */
static void every_format_prints(void **state)
{
    static const char *const names[] = {"text", "json", "dot", "svg"};
    static const char *const begins[] = {"layer", "{\"tokens\":4", "digraph", "<svg "};
    struct config c = whole_panels(FAMILY_QWEN3);
    c.n_layer = 3;
    struct model *m = model_of(&c, K_BF16);
    struct err e = ERR_INIT;
    struct graph g;
    (void)state;
    record(&g, m, MODEL_LOGITS, false);
    assert_good(passes_run(&g, PASS_ALL, PASS_COUNT - 1, &e), &e);
    for (int i = 0; i < 4; i++) {
        struct buf out;
        buf_init(&out, 1 << 20);
        graph_print(&g, (enum graph_format)graph_format_find(names[i]), 4, 1, &out);
        assert_good(buf_check(&out, "a graph", &e), &e);
        assert_non_null(strstr(out.data, begins[i]));
        assert_non_null(strstr(out.data, "linear"));
        if (i == 3)
            check_bands(out.data, m->cfg.n_layer), check_boxes(out.data);
        for (int32_t k = 0; i == 0 && k < m->n_param; k++)
            if (strstr(m->param[k].name, "norm") && !strstr(out.data, m->param[k].name))
                fail_msg("nothing reads %s", m->param[k].name);
        if (i == 3) { /* layers that lie side by side look different */
            const char *first = strstr(out.data, "#eaeef2"), *second = strstr(out.data, "#f4f6f8");
            assert_true(first && second && first < second && strstr(second, "#eaeef2"));
        }
        buf_release(&out);
    }
    assert_int_equal(graph_format_find("png"), -1);
    graph_release(&g);
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_have_names),
        cmocka_unit_test(passes_find_their_work),
        cmocka_unit_test(heads_of_other_tables_stay_apart),
        cmocka_unit_test(only_norms_of_heads_come_along),
        cmocka_unit_test(what_others_read_stays),
        cmocka_unit_test(dead_parts_go),
        cmocka_unit_test(biases_are_folded),
        cmocka_unit_test(broken_graphs_are_refused),
        cmocka_unit_test(outputs_outlive_all_nodes),
        cmocka_unit_test(live_values_are_apart),
        cmocka_unit_test(one_billion_is_near_its_bound),
        cmocka_unit_test(a_run_allocates_nothing),
        cmocka_unit_test(every_format_prints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
