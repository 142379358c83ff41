/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws 2 and 3 on tiny models of every family and weight type: what a sequence gets is the same to
 * the last bit whether the model runs as a plan or op by op, with any pass on or off, with one
 * thread or three, with its prompt whole or in any chunks, alone or among others.
 */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "kernels/q8.h"
#include "tests/lib/formats.h"
#include "tests/lib/tiny.h"

enum { N_TOK = 70 };

static const enum config_family families[] = {
    FAMILY_LLAMA,          FAMILY_QWEN2,  FAMILY_QWEN3,   FAMILY_GPT2,        FAMILY_MISTRAL,
    FAMILY_MINISTRAL,      FAMILY_OLMO2,  FAMILY_SMOLLM3, FAMILY_GRANITE,     FAMILY_GEMMA2,
    FAMILY_GEMMA3,         FAMILY_PHI3,   FAMILY_BERT,    FAMILY_QWEN3_MOE,   FAMILY_MIXTRAL,
    FAMILY_GPT_OSS,        FAMILY_LFM2,   FAMILY_QWEN3_5, FAMILY_DEEPSEEK_V2, FAMILY_DEEPSEEK_V3,
    FAMILY_GRANITE_HYBRID, FAMILY_GEMMA4, FAMILY_GEMMA3N};

static enum model_output output_of(enum config_family f)
{
    return f == FAMILY_BERT ? MODEL_HIDDEN : MODEL_LOGITS;
}

/* The results of feeding N_TOK tokens in chunks of at most `chunk`, every row's answer; free(). */
static float *feed(struct tiny *t, struct runner *r, int64_t chunk)
{
    int32_t token[N_TOK];
    struct err e = ERR_INIT;
    struct op_view out;
    float *all = NULL;
    tiny_tokens(t->model, token, N_TOK);
    for (int64_t pos = 0; pos < N_TOK; pos += chunk) {
        int64_t n = pos + chunk < N_TOK ? chunk : N_TOK - pos;
        assert_good(runner_feed(r, token + pos, n, pos, n, &out, &e), &e);
        if (!all)
            all = xcalloc(N_TOK, (size_t)out.shape.cols * sizeof *all);
        for (int64_t i = 0; i < n; i++)
            memcpy(all + (pos + i) * out.shape.cols, out.p + i * out.ld,
                   (size_t)out.shape.cols * sizeof *all);
    }
    return all;
}

static void assert_same(const struct model *m, const float *a, const float *b, const char *what)
{
    int64_t cols = m->cfg.family == FAMILY_BERT ? m->cfg.d_model : m->cfg.n_vocab;
    for (int64_t i = 0; i < N_TOK * cols; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s, type %d: %s: row %lld, column %lld: %.9g is not %.9g",
                     config_family_name(m->cfg.family), model_main_type(m), what,
                     (long long)(i / cols), (long long)(i % cols), (double)a[i], (double)b[i]);
}

/* tiny_init, or one like it. */
typedef void init_fn(struct tiny *t, const struct config *c, enum k_type type, int n_thread,
                     const char *kernels);

static void one_model(const struct config *c, enum k_type type, init_fn *init,
                      void (*check)(struct tiny *t, const float *want))
{
    struct tiny t;
    init(&t, c, type, 1, NULL);
    struct runner *r = tiny_runner(&t, N_TOK, output_of(c->family), false, PASS_ALL);
    float *want = feed(&t, r, N_TOK);
    for (int64_t i = 0; i < N_TOK; i++)
        assert_true(want[i] - want[i] == 0); /* finite */
    check(&t, want);
    free(want);
    runner_free(r);
    tiny_release(&t);
}

static void each_model(void (*check)(struct tiny *t, const float *want))
{
    for (size_t k = 0; k < FORMATS_PACKED; k++) {
        for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
            struct config c = tiny_config(families[f]);
            one_model(&c, formats_packed[k], tiny_init, check);
            if (f % FORMATS_PACKED == k)
                one_model(&c, formats_packed[k], tiny_init_cells_int8, check);
            if (q8_has(formats_packed[k]) && f % 4 == k % 4)
                one_model(&c, formats_packed[k], tiny_init_int8, check);
        }
        struct config whole = tiny_config(FAMILY_LLAMA);
        whole.d_ff = 96; /* whole panels: gate and up are joined, and with what comes behind */
        one_model(&whole, formats_packed[k], tiny_init, check);
        if (q8_has(formats_packed[k]))
            one_model(&whole, formats_packed[k], tiny_init_int8, check);
    }
}

static void check_eager(struct tiny *t, const float *want)
{
    struct runner *r = tiny_runner(t, N_TOK, output_of(t->model->cfg.family), true, 0);
    float *got = feed(t, r, N_TOK);
    assert_same(t->model, got, want, "eager");
    free(got);
    runner_free(r);
}

/* Faults: a pass that changes a sum's order, an in-place node that overwrites what is read later, a
 * memory plan that lets two live values overlap. */
static void static_is_eager(void **state)
{
    (void)state;
    each_model(check_eager);
}

static void check_passes(struct tiny *t, const float *want)
{
    for (int p = -1; p < PASS_COUNT; p++) {
        unsigned mask = p < 0 ? 0 : PASS_ALL & ~(1u << p);
        struct runner *r = tiny_runner(t, N_TOK, output_of(t->model->cfg.family), false, mask);
        float *got = feed(t, r, N_TOK);
        assert_same(t->model, got, want, p < 0 ? "no pass" : pass_name((enum pass_id)p));
        free(got);
        runner_free(r);
    }
}

/* Faults: any single pass that is not exact, or that others need to be legal. */
static void passes_change_nothing(void **state)
{
    (void)state;
    each_model(check_passes);
}

static void check_threads(struct tiny *t, const float *want)
{
    struct tiny more;
    bool is_int8 = false;
    for (int32_t i = 0; i < t->model->n_param; i++)
        is_int8 = is_int8 || t->model->param[i].reads_q8;
    init_fn *init = t->model->kv_type == K_INT8 ? tiny_init_cells_int8
                    : is_int8                   ? tiny_init_int8
                                                : tiny_init;
    init(&more, &t->model->cfg, model_main_type(t->model), 3, NULL);
    struct runner *r = tiny_runner(&more, N_TOK, output_of(t->model->cfg.family), false, PASS_ALL);
    float *got = feed(&more, r, N_TOK);
    assert_same(t->model, got, want, "three threads");
    free(got);
    runner_free(r);
    tiny_release(&more);
}

/* Faults: a sum that is cut over threads; a race between two units. */
static void threads_change_nothing(void **state)
{
    (void)state;
    each_model(check_threads);
}

static void check_chunks(struct tiny *t, const float *want)
{
    static const int64_t chunks[] = {1, 7, 31, 32, 33};
    if (t->model->cfg.family == FAMILY_BERT) /* sees its whole text at once */
        return;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        struct runner *r = tiny_runner(t, N_TOK, MODEL_LOGITS, false, PASS_ALL);
        float *got = feed(t, r, chunks[i]);
        assert_same(t->model, got, want, "chunks");
        free(got);
        runner_free(r);
    }
}

/* Faults: attention whose order of sums depends on the rows of the call; K/V written to the wrong
 * slot; positions that restart with a chunk. */
static void chunks_are_the_whole(void **state)
{
    (void)state;
    each_model(check_chunks);
}

/* Three sequences in one batch, their cells interleaved: the middle one is the one asked for. */
static float *feed_among_others(struct tiny *t, struct runner *r)
{
    enum { OTHER = 9, N_ALL = N_TOK + 2 * OTHER };
    struct batch *b = runner_batch(r);
    struct err e = ERR_INIT;
    struct op_view out;
    int32_t at = 0;
    int64_t len[3] = {OTHER, N_TOK, OTHER};
    b->q_start[0] = 0;
    for (int32_t s = 0; s < 3; s++) {
        tiny_tokens(t->model, b->token + at, len[s]);
        if (s != 1)
            b->token[at] = (b->token[at] + 1 + s) % (int32_t)t->model->cfg.n_vocab;
        for (int32_t i = 0; i < len[s]; i++, at++) {
            b->pos[at] = i;
            b->seq_of[at] = s;
            b->segment[at] = 0;
            b->out_row[at] = at;
        }
        b->q_start[s + 1] = at;
        b->kv_len[s] = (int32_t)len[s];
        for (int32_t c = 0; c * K_CELL < len[s]; c++)
            b->cell[s * b->cell_stride + c] = 3 * c + 2 - s;
    }
    b->n[DIM_TOK] = b->n[DIM_OUT] = N_ALL;
    b->n[DIM_SEQ] = 3;
    b->n[DIM_GROUP] = 0;
    assert_good(runner_step(r, &out, &e), &e);
    float *own = xcalloc(N_TOK, (size_t)out.shape.cols * sizeof *own);
    memcpy(own, out.p + OTHER * out.ld, N_TOK * (size_t)out.shape.cols * sizeof *own);
    return own;
}

static void check_company(struct tiny *t, const float *want)
{
    struct runner *r = tiny_runner(t, N_TOK + 18, output_of(t->model->cfg.family), false, PASS_ALL);
    float *got = feed_among_others(t, r);
    assert_same(t->model, got, want, "among others");
    free(got);
    runner_free(r);
}

/* Faults: a row whose bits depend on its place in a block, attention that leaks between sequences.
 */
static void company_changes_nothing(void **state)
{
    (void)state;
    each_model(check_company);
}

static void check_gates(const struct config *c, enum k_type type, init_fn *init, const char *level)
{
    struct tiny t;
    init(&t, c, type, 1, level);
    struct runner *plan = tiny_runner(&t, N_TOK, MODEL_LOGITS, false, PASS_ALL);
    struct runner *eager = tiny_runner(&t, N_TOK, MODEL_LOGITS, true, PASS_ALL);
    float *got = feed(&t, plan, N_TOK), *want = feed(&t, eager, N_TOK);
    assert_same(t.model, got, want, level);
    free(got);
    free(want);
    runner_free(plan);
    runner_free(eager);
    tiny_release(&t);
}

/* Fault: a gated product that is given to kernels which know of none. */
static void every_level_gates(void **state)
{
    static const char *const levels[] = {"ref", "avx2", "avx512", "avx512_bf16"};
    struct config c = tiny_config(FAMILY_LLAMA);
    (void)state;
    c.d_ff = 96;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        struct kernel_table table;
        if (kernel_table_init(&table, levels[i]))
            continue; /* not on this CPU */
        check_gates(&c, K_BF16, tiny_init, levels[i]);
        check_gates(&c, K_INT8, tiny_init_int8, levels[i]);
    }
}

static void add_experts(void *ctx, enum kernel_id k, struct k_shape shape, int64_t ns)
{
    (void)ns;
    *(double *)ctx += k == K_experts ? shape.bytes : 0;
}

/* Fault: a token that decodes reads experts which it does not go to. */
static void decode_reads_its_experts(void **state)
{
    struct config c = tiny_config(FAMILY_MIXTRAL);
    (void)state;
    c.n_expert = 16;
    for (size_t k = 0; k < FORMATS_PACKED; k++) {
        struct tiny t;
        struct err e = ERR_INIT;
        struct op_view out;
        int32_t token = 3;
        double bytes = 0;
        tiny_init(&t, &c, formats_packed[k], 1, NULL);
        struct runner *r = tiny_runner(&t, N_TOK, MODEL_LOGITS, false, PASS_ALL);
        stream_trace(t.stream, add_experts, &bytes);
        assert_good(runner_feed(r, &token, 1, 0, 1, &out, &e), &e);
        double one = 2 * (double)k_weight_bytes(formats_packed[k], c.d_expert, c.d_model) +
                     (double)k_weight_bytes(formats_packed[k], c.d_model, c.d_expert);
        double numbers = 3 * (double)((c.d_model + c.d_expert) * c.n_top) * sizeof(float);
        assert_true(bytes >= (double)c.n_layer * c.n_top * one);
        assert_true(bytes <= (double)c.n_layer * (c.n_top * one + numbers + 3 * 64));
        runner_free(r);
        tiny_release(&t);
    }
}

static void add_states(void *ctx, enum kernel_id k, struct k_shape shape, int64_t ns)
{
    (void)ns;
    *(double *)ctx += k == K_delta || k == K_conv ? shape.bytes : 0;
}

/* The bytes that layers with a recurrent state read and write for the token at `pos`. */
static double state_bytes_at(struct tiny *t, struct runner *r, int64_t pos)
{
    struct err e = ERR_INIT;
    struct op_view out;
    int32_t token = 3;
    double bytes = 0;
    stream_trace(t->stream, add_states, &bytes);
    assert_good(runner_feed(r, &token, 1, pos, 1, &out, &e), &e);
    stream_trace(t->stream, NULL, NULL);
    return bytes;
}

static void decodes_as_cheaply_deep_in_a_text(enum config_family f)
{
    enum { DEEP = 30000 };
    struct config c = tiny_config(f);
    struct tiny t;
    struct err e = ERR_INIT;
    c.max_pos = DEEP + 1;
    tiny_init(&t, &c, K_BF16, 1, NULL);
    struct runner_options o = {
        .cap = {[DIM_TOK] = 1, [DIM_OUT] = 1, [DIM_SEQ] = 1, [DIM_GROUP] = 1},
        .n_cell = DEEP / K_CELL + 1,
        .passes = PASS_ALL,
        .output = MODEL_LOGITS};
    struct runner *r = runner_new(t.model, &o, t.stream, &e);
    assert_good(r ? 0 : -1, &e);
    state_bytes_at(&t, r, 0);
    double early = state_bytes_at(&t, r, 100), deep = state_bytes_at(&t, r, DEEP);
    assert_true(early > 0 && early == deep);
    assert_true(early < 4 * (double)model_state_bytes(t.model));
    runner_free(r);
    tiny_release(&t);
}

/* Fault: a recurrent layer that looks back: its decode is dearer deep in a text. */
static void decode_is_as_cheap_deep_in_a_text(void **state)
{
    (void)state;
    decodes_as_cheaply_deep_in_a_text(FAMILY_QWEN3_5);
    decodes_as_cheaply_deep_in_a_text(FAMILY_GRANITE_HYBRID);
}

enum { LONG = 520, LONG_ROOM = 600, LONG_OUT = 8 };

/* Feeds LONG tokens, the last LONG_OUT of them in chunks of `chunk`; their answers; free(). */
static float *feed_long(struct tiny *t, struct runner *r, int64_t chunk)
{
    int32_t token[LONG];
    struct err e = ERR_INIT;
    struct op_view out;
    float *all = NULL, *to = NULL;
    tiny_tokens(t->model, token, LONG);
    assert_good(runner_feed(r, token, LONG - LONG_OUT, 0, 1, &out, &e), &e);
    for (int64_t pos = LONG - LONG_OUT; pos < LONG; pos += chunk) {
        assert_good(runner_feed(r, token + pos, chunk, pos, chunk, &out, &e), &e);
        if (!all)
            to = all = xcalloc(LONG_OUT, (size_t)out.shape.cols * sizeof *all);
        for (int64_t i = 0; i < chunk; i++, to += out.shape.cols)
            memcpy(to, out.p + i * out.ld, (size_t)out.shape.cols * sizeof *to);
    }
    return all;
}

static void count_part(void *ctx, enum kernel_id k, struct k_shape shape, int64_t ns)
{
    (void)shape, (void)ns;
    ((int *)ctx)[0] += k == K_attn;
    ((int *)ctx)[1] += k == K_attn_part;
    ((int *)ctx)[2] += k == K_attn_merge;
}

static void check_few_rows(enum config_family f, bool is_eager)
{
    struct config c = tiny_config(f);
    struct tiny one, many;
    c.max_pos = LONG_ROOM;
    c.window = f == FAMILY_MISTRAL ? 300 : 0;
    tiny_init(&one, &c, K_BF16, 1, NULL);
    tiny_init(&many, &c, K_BF16, 5, NULL);
    struct runner *whole = tiny_runner(&one, LONG, MODEL_LOGITS, false, PASS_ALL);
    struct runner *apart = tiny_runner(&many, LONG, MODEL_LOGITS, is_eager, PASS_ALL);
    float *want = feed_long(&one, whole, LONG_OUT);
    for (int64_t chunk = 1; chunk <= LONG_OUT; chunk *= 2) {
        int n[3] = {0};
        stream_trace(many.stream, count_part, n);
        float *got = feed_long(&many, apart, chunk);
        int n_apart = chunk <= 4 ? (int)(LONG_OUT / chunk) : 0; /* five threads, two heads */
        assert_int_equal(n[0], (1 + (int)(LONG_OUT / chunk) - n_apart) * c.n_layer);
        assert_int_equal(n[1], n_apart * c.n_layer);
        assert_int_equal(n[2], n_apart * c.n_layer);
        assert_memory_equal(got, want, (size_t)(LONG_OUT * c.n_vocab) * sizeof *got);
        free(got);
    }
    free(want);
    runner_free(whole);
    runner_free(apart);
    tiny_release(&one);
    tiny_release(&many);
}

/* Faults: chunks of a long sequence folded in another order than by one thread; a step of few
 * tokens that attends twice, or not at all, because its counts were not patched. */
static void chunks_apart_change_nothing(void **state)
{
    (void)state;
    check_few_rows(FAMILY_LLAMA, false);
    check_few_rows(FAMILY_LLAMA, true);
    check_few_rows(FAMILY_MISTRAL, false);
}

/* Faults: an id past the vocabulary or a place past the cache that reaches a kernel. */
static void bad_feeds_are_refused(void **state)
{
    (void)state;
    struct config c = tiny_config(FAMILY_LLAMA);
    struct err e = ERR_INIT;
    struct op_view out;
    struct tiny t;
    tiny_init(&t, &c, K_F32, 1, NULL);
    struct runner *r = tiny_runner(&t, 8, MODEL_LOGITS, false, PASS_ALL);
    int32_t token[9] = {1, 2, 67};
    assert_err(runner_feed(r, token, 3, 0, 1, &out, &e), &e, ERR_BAD_INPUT, "token 67");
    token[2] = -1;
    assert_err(runner_feed(r, token, 3, 0, 1, &out, &e), &e, ERR_BAD_INPUT, "token -1");
    assert_err(runner_feed(r, token, 9, 0, 1, &out, &e), &e, ERR_TOO_LARGE, "a step takes 8");
    assert_err(runner_feed(r, token, 2, 255, 1, &out, &e), &e, ERR_TOO_LARGE, "the cache 256");
    runner_free(r);
    tiny_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_is_eager),
        cmocka_unit_test(passes_change_nothing),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(chunks_are_the_whole),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(chunks_apart_change_nothing),
        cmocka_unit_test(every_level_gates),
        cmocka_unit_test(decode_reads_its_experts),
        cmocka_unit_test(decode_is_as_cheap_deep_in_a_text),
        cmocka_unit_test(bad_feeds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
