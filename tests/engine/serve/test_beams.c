/* SPDX-License-Identifier: Apache-2.0
 *
 * Beam search: what is found is what transformers finds (tests/golden/make_beams.py), by attention
 * and by short convolutions, and over recurrent states what requests of their own for each text
 * say; alone, many together among other texts, with an adapter, with few seats and cells. What it
 * may not be had with is refused, and a search that ends before its time leaves nothing.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/load/json.h"
#include "engine/sample/beam_search.h"
#include "engine/serve/engine_own.h"
#include "tests/lib/reply.h"

#define LLAMA "tests/golden/models/llama_plain"

enum {
    MOST = 40,
    PROMPT_MAX = 64,
    ENDS_MAX = 12,
    WIDTH_MAX = SAMPLE_BEAMS_MAX,
    CTX = 64,
    FEW_CELLS = 26, /* what eight texts of the longest need, with one to grow by each */
    FEW_STATES = 30 /* of ten sequences, with two kept for each */
};

/* A text that is found. */
struct text {
    int32_t id[PROMPT_MAX];
    int64_t n;
    int32_t end; /* -1: it was cut */
    double score;
};

struct search {
    int32_t prompt[PROMPT_MAX], ends[ENDS_MAX];
    struct gen_params params;
    struct gen_req req[WIDTH_MAX];
    struct answer *answer[WIDTH_MAX];
    struct text want[WIDTH_MAX];
    int64_t width;
};

static struct search all[MOST];
static size_t n_all;

/* ---- the goldens --------------------------------------------------------------------------- */

static double as_number(const struct json *v)
{
    struct err e = ERR_INIT;
    double x = 0;
    assert_good(json_as_num(v, &x, &e), &e);
    return x;
}

static double number(const struct json *of, const char *name)
{
    struct json v = json_member(of, name);
    return as_number(&v);
}

static int64_t ids(const struct json *of, const char *name, int32_t *to)
{
    struct json list = json_member(of, name), v;
    int64_t n = 0;
    json_each(v, list) to[n++] = (int32_t)as_number(&v);
    return n;
}

static enum sample_beams_end ends_of(const struct json *c)
{
    struct err e = ERR_INIT;
    bool is_early = false;
    struct json v = json_member(c, "early");
    if (!json_is(&v, JSON_BOOL))
        return BEAMS_NEVER_EARLY;
    assert_good(json_as_bool(&v, &is_early, &e), &e);
    return is_early ? BEAMS_EARLY : BEAMS_HOPEFUL;
}

static void ready(struct search *s, int64_t n_prompt)
{
    s->params.beams.width = s->width;
    s->params.stop_id = s->ends;
    for (int64_t i = 0; i < s->width; i++)
        s->req[i] = (struct gen_req){
            .kind = GEN_TEXT, .prompt = s->prompt, .n_prompt = n_prompt, .params = &s->params};
}

static void read_case(struct search *s, const struct json *c)
{
    struct json found = json_member(c, "found"), f;
    memset(s, 0, sizeof *s);
    s->width = (int64_t)number(c, "width");
    s->params = gen_greedy((int64_t)number(c, "max_new"));
    s->params.wants_logprob = true;
    s->params.beams.length_penalty = number(c, "length_penalty");
    s->params.beams.ends = ends_of(c);
    s->params.n_stop_id = (int32_t)ids(c, "ends", s->ends);
    ready(s, ids(c, "prompt", s->prompt));
    struct text *t = s->want;
    json_each(f, found)
    {
        *t = (struct text){.end = (int32_t)number(&f, "end"), .score = number(&f, "score")};
        t->n = ids(&f, "ids", t->id);
        t++;
    }
    assert_int_equal(t - s->want, s->width);
}

static void read_all(const char *model)
{
    struct err e = ERR_INIT;
    char path[200];
    snprintf(path, sizeof path, "tests/golden/beams/%s.json", model);
    struct json_doc *d = json_read(path, path, &json_rules_config, &e);
    assert_good(d ? 0 : -1, &e);
    struct json root = json_root(d), cases = json_member(&root, "cases"), c;
    n_all = 0;
    json_each(c, cases)
    {
        assert_true(n_all < MOST);
        read_case(&all[n_all++], &c);
    }
    assert_true(n_all >= 12);
    json_free(d);
}

/* ---- what came ----------------------------------------------------------------------------- */

static void ask(struct engine *g, struct search *s)
{
    struct err e = ERR_INIT;
    const struct gen_notify nobody = {.fn = NULL};
    while (engine_submit(g, s->req, (size_t)s->width, nobody, s->answer, &e)) {
        if (e.code != ERR_BUSY) /* others hold what searches may have */
            fail_msg("%s", e.msg);
        usleep(100);
    }
}

static void take(struct text *t, const struct answer *a, double length_penalty)
{
    enum gen_end why = answer_wait(a);
    const struct answer_end *end = answer_end(a);
    assert_true(why == GEN_STOPPED || why == GEN_LENGTH);
    *t = (struct text){.n = (int64_t)answer_count(a), .end = end->stop_id};
    assert_int_equal(why == GEN_STOPPED, end->stop_id >= 0);
    for (int64_t i = 0; i < t->n; i++) {
        t->id[i] = answer_token(a, (size_t)i)->id;
        t->score += answer_token(a, (size_t)i)->logprob;
    }
    t->score += t->end >= 0 ? end->stop_logprob : 0;
    t->score /= pow((double)(t->n + (t->end >= 0)), length_penalty);
}

/* to_the_bit: else as another's arithmetic has it. */
static void same(const struct text *got, const struct text *want, bool to_the_bit)
{
    assert_int_equal(got->n, want->n);
    assert_int_equal(got->end, want->end);
    assert_memory_equal(got->id, want->id, (size_t)want->n * sizeof *want->id);
    if (to_the_bit)
        assert_true(got->score == want->score);
    else if (!(fabs(got->score - want->score) < 1e-3 * fmax(1, fabs(want->score))))
        fail_msg("a score of %g, not %g", got->score, want->score);
}

static void check(struct search *s, bool to_the_bit)
{
    for (int64_t i = 0; i < s->width; i++) {
        struct text got;
        take(&got, s->answer[i], s->params.beams.length_penalty);
        same(&got, &s->want[i], to_the_bit);
        s->want[i] = got; /* from here on to the bit */
        answer_unref(s->answer[i]);
    }
}

static struct engine *start(const char *model, struct engine_options o)
{
    char dir[200];
    snprintf(dir, sizeof dir, "tests/golden/models/%s", model);
    o.load.quantize = "f32";
    o.load.threads = 2;
    o.load.ctx = CTX;
    return engine_on(dir, &o);
}

/* Of room, seats and cells, by all that run and wait. */
static int64_t held_by(struct engine *g)
{
    struct engine_stat s = engine_stat(g);
    return (int64_t)atomic_load(&g->told.hold_bytes) + atomic_load(&g->told.beam_seats[0]) +
           atomic_load(&g->told.beam_seats[1]) + atomic_load(&g->told.beam_cells[0]) +
           atomic_load(&g->told.beam_cells[1]) + s.n_running + s.n_waiting + s.cell_used;
}

/* The engine's thread gives one back behind the other, and whoever was waited for had its answer
 * before. */
static void nothing_is_held(struct engine *g)
{
    while (held_by(g))
        usleep(100); /* returns at all */
}

/* ---- the same by requests for a token each -------------------------------------------------- */

enum { N_SCORED = 8, LEAST_VOCAB = 199 };

/* What may follow a text. */
static int32_t score(struct engine *g, const int32_t *text, int64_t n, int32_t n_top,
                     struct sample_top *top)
{
    struct err e = ERR_INIT;
    struct gen_params p = gen_greedy(1);
    struct gen_req req = {.kind = GEN_TEXT, .prompt = text, .n_prompt = n, .params = &p};
    struct answer *a;
    p.wants_logprob = true;
    p.n_top = n_top;
    assert_good(engine_submit(g, &req, 1, (struct gen_notify){0}, &a, &e), &e);
    assert_int_equal(answer_wait(a), GEN_LENGTH);
    for (int32_t i = 0; i < n_top; i++)
        top[i] = (struct sample_top){.id = answer_top(a, 0)[i].id,
                                     .logprob = answer_top(a, 0)[i].logprob};
    answer_unref(a);
    return n_top;
}

static struct text text_of(const struct beam_found *f, double length_penalty)
{
    struct text x = {.n = f->n, .end = f->is_ended ? f->end_id : -1};
    memcpy(x.id, f->id, (size_t)f->n * sizeof *f->id);
    for (int64_t i = 0; i < f->n; i++)
        x.score += f->logprob[i];
    x.score += f->is_ended ? f->end_logprob : 0;
    x.score /= pow((double)(f->n + f->is_ended), length_penalty);
    return x;
}

static void want_by_scoring(struct engine *g, struct search *s)
{
    struct err e = ERR_INIT;
    struct beam_params p = {.how = s->params.beams,
                            .max_new = s->params.max_new,
                            .end_id = s->ends,
                            .n_end_id = s->params.n_stop_id};
    struct beam_search *b = beam_search_new(&p, &e);
    struct sample_top top[SAMPLE_TOP_MAX];
    int32_t text[PROMPT_MAX];
    int64_t n_prompt = s->req[0].n_prompt, n_new = 0;
    assert_good(b ? 0 : -1, &e);
    memcpy(text, s->prompt, (size_t)n_prompt * sizeof *text);
    do {
        for (int64_t i = 0; i < s->width; i++) {
            const int32_t *id = beam_search_text(b, i, &n_new);
            memcpy(text + n_prompt, id, (size_t)n_new * sizeof *id);
            beam_search_hear(b, i, top,
                             score(g, text, n_prompt + n_new, beam_search_tops(&p), top));
        }
    } while (beam_search_choose(b));
    for (int64_t i = 0; i < s->width; i++) {
        struct beam_found f = beam_search_found(b, i);
        s->want[i] = text_of(&f, p.how.length_penalty);
    }
    beam_search_free(b);
}

/* The prompts of llama_plain's goldens, as far as another vocabulary has their tokens. */
static void read_scored(struct engine *g)
{
    read_all("llama_plain");
    n_all = N_SCORED;
    for (size_t i = 0; i < MOST; i++) {
        for (int64_t k = 0; k < PROMPT_MAX; k++)
            all[i].prompt[k] %= LEAST_VOCAB;
        for (int32_t k = 0; k < ENDS_MAX; k++)
            all[i].ends[k] %= LEAST_VOCAB;
    }
    for (size_t i = 0; i < n_all; i++)
        want_by_scoring(g, &all[i]);
}

/* Texts that go on by themselves beside them. */
static void check_among(struct engine *g)
{
    enum { N = 12 };
    struct gen_params p[N];
    struct gen_req req[N];
    struct answer *a[N];
    struct reply alone[N];
    struct err e = ERR_INIT;
    for (size_t i = 0; i < N; i++) {
        p[i] = gen_greedy((int64_t)(3 + 4 * i));
        req[i] = (struct gen_req){
            .kind = GEN_TEXT, .prompt = all[i].prompt, .n_prompt = 1 + (int64_t)i, .params = &p[i]};
        reply_ask(&alone[i], g, &req[i]);
    }
    for (size_t i = 0; i < n_all || i < N; i++) {
        if (i < N)
            assert_good(engine_submit(g, &req[i], 1, (struct gen_notify){0}, &a[i], &e), &e);
        if (i < n_all)
            ask(g, &all[i]);
    }
    for (size_t i = 0; i < N; i++) {
        struct reply got;
        reply_wait(&got, a[i], &req[i]);
        reply_same(&got, &alone[i], "among beams");
        reply_release(&got);
        reply_release(&alone[i]);
    }
    for (size_t i = 0; i < n_all; i++)
        check(&all[i], true);
}

/* Faults: another choice than the rules' (of what goes on, what is found, when it is over); keys,
 * values or states that a text takes from the wrong one, or that are computed otherwise among
 * others, where cells run out, or where a text waits for those that it is chosen with. */
static void check_model(const char *model, bool by_goldens)
{
    static const struct engine_options plain = {.model = NULL};
    struct engine *g = start(model, plain);
    if (by_goldens)
        read_all(model);
    else
        read_scored(g);
    for (size_t i = 0; i < n_all; i++) {
        ask(g, &all[i]);
        check(&all[i], !by_goldens);
    }
    check_among(g);
    nothing_is_held(g);
    const struct model *m = engine_resident(g)->model;
    int64_t states = (int64_t)model_state_bytes(m) * FEW_STATES;
    int64_t cells = (int64_t)model_kv_token_bytes(m) * K_CELL * FEW_CELLS;
    cells += states > cells ? 2 * states - cells : states; /* of which states may take half */
    engine_free(g);
    const struct engine_options few = {.max_seqs = 9, .kv_bytes = cells},
                                no_prefixes = {.no_prefix_cache = true},
                                steps = {.max_batch_tokens = 11, .max_seqs = 10, .kv_bytes = cells};
    const struct engine_options *other[] = {&few, &no_prefixes, &steps};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        g = start(model, *other[i]);
        check_among(g);
        nothing_is_held(g);
        engine_free(g);
    }
}

static void finds_what_transformers_finds(void **state)
{
    (void)state;
    check_model("llama_plain", true);
}

static void over_short_convolutions(void **state)
{
    (void)state;
    check_model("lfm2", true);
}

/* Fault, besides: a text that goes on with another's state, or with one of another place. */
static void over_delta_rules(void **state)
{
    (void)state;
    check_model("qwen3_5", false);
}

static void over_scans(void **state)
{
    (void)state;
    check_model("granite_hybrid", false);
}

/* Fault: a beam that is alone and says something else than the likeliest text. */
static void one_beam_is_greedy(void **state)
{
    static const char *const names[] = {"llama_plain", "qwen3_5", "granite_hybrid"};
    (void)state;
    for (size_t m = 0; m < sizeof names / sizeof *names; m++) {
        struct engine *g = start(names[m], (struct engine_options){.model = NULL});
        read_all("llama_plain");
        for (size_t i = 0; i < N_SCORED; i++) {
            struct gen_params plain = all[i].params, one = all[i].params;
            struct gen_req req = all[i].req[0];
            for (int64_t k = 0; k < req.n_prompt; k++)
                all[i].prompt[k] %= LEAST_VOCAB;
            struct text want, got;
            struct err e = ERR_INIT;
            struct answer *a[2];
            plain.beams = (struct sample_beams){0};
            one.beams.width = 1;
            one.beams.ends = BEAMS_EARLY;
            req.params = &plain;
            assert_good(engine_submit(g, &req, 1, (struct gen_notify){0}, &a[0], &e), &e);
            req.params = &one;
            assert_good(engine_submit(g, &req, 1, (struct gen_notify){0}, &a[1], &e), &e);
            take(&want, a[0], 1);
            take(&got, a[1], 1);
            same(&got, &want, false);
            answer_unref(a[0]), answer_unref(a[1]);
        }
        nothing_is_held(g);
        engine_free(g);
    }
}

/* ---- adapters ------------------------------------------------------------------------------ */

/* Fault: beams of an adapter that take the base's cells, or another's, or its weights. */
static void searches_of_adapters(void **state)
{
    (void)state;
    enum { N = 3 };
    static const char *const name[N] = {NULL, "one", "two"};
    struct engine_options o = {.max_adapters = 4, .max_lora_rank = 64};
    struct engine *g = start("llama_plain", o);
    struct adapter *adapter[N] = {0};
    struct err e = ERR_INIT;
    int n_other = 0;
    assert_good(engine_adapter_load(g, "one", LLAMA "/lora", &e), &e);
    assert_good(engine_adapter_load(g, "two", LLAMA "/lora_final", &e), &e);
    read_all("llama_plain");
    for (size_t k = 1; k < N; k++)
        assert_non_null(adapter[k] = engine_adapter_get(g, name[k]));
    for (size_t i = 0; i < n_all; i++) { /* each alone */
        struct text base = all[i].want[0];
        for (int64_t b = 0; b < all[i].width; b++)
            all[i].req[b].adapter = adapter[i % N];
        ask(g, &all[i]);
        for (int64_t b = 0; b < all[i].width; b++) {
            take(&all[i].want[b], all[i].answer[b], all[i].params.beams.length_penalty);
            answer_unref(all[i].answer[b]);
        }
        n_other += memcmp(base.id, all[i].want[0].id, sizeof base.id) != 0;
    }
    assert_true(n_other > 0);
    check_among(g);
    for (size_t k = 1; k < N; k++)
        adapter_unref(adapter[k]);
    nothing_is_held(g);
    engine_free(g);
}

/* ---- ends and bounds ----------------------------------------------------------------------- */

/* Faults: a cancelled beam that the others wait for; room that a search keeps behind its end. */
static void one_leaves(const char *model)
{
    struct engine *g = start(model, (struct engine_options){.model = NULL});
    read_all("llama_plain");
    for (size_t i = 0; i < n_all; i++) {
        struct search *s = &all[i];
        ask(g, s);
        answer_cancel(s->answer[(int64_t)i % s->width]);
        enum gen_end first = answer_wait(s->answer[0]); /* it may have been over before */
        for (int64_t b = 0; b < s->width; b++) {
            enum gen_end why = answer_wait(s->answer[b]);
            assert_int_equal(why == GEN_CANCELLED, first == GEN_CANCELLED);
            answer_unref(s->answer[b]);
        }
    }
    nothing_is_held(g);
    engine_free(g);
}

static void one_that_leaves_takes_all(void **state)
{
    (void)state;
    one_leaves("llama_plain");
    one_leaves("qwen3_5");
}

static void refused(struct engine *g, struct search *s, enum err_code code, const char *what)
{
    struct err e = ERR_INIT;
    struct answer *a[WIDTH_MAX + 8];
    struct gen_req req[WIDTH_MAX + 8];
    for (int64_t i = 0; i < s->width; i++)
        req[i] = s->req[0];
    for (int64_t i = 0; i < s->width; i++)
        req[i].params = &s->params;
    s->params.beams.width = s->width;
    int rc = engine_submit(g, req, (size_t)s->width, (struct gen_notify){0}, a, &e);
    assert_err(rc, &e, code, what);
}

/* Fault: a field that changes log-probabilities and is left aside; more beams than may be. */
static void what_cannot_be_had(void **state)
{
    (void)state;
    static struct sample_bias bias = {.id = 3, .add = 1};
    struct engine *g = start("llama_plain", (struct engine_options){.max_seqs = 12});
    struct search s;
    read_all("llama_plain");
    s = all[0];
    s.params.n_stop_id = 0;
    s.params.sample.n_bias = 1;
    s.params.sample.bias = &bias;
    refused(g, &s, ERR_UNSUPPORTED, "logit_bias");
    s.params.sample.n_bias = 0;
    s.params.sample.repetition = 1.1;
    refused(g, &s, ERR_UNSUPPORTED, "repetition_penalty");
    s.params.sample.repetition = 1;
    s.params.min_new = 1;
    refused(g, &s, ERR_UNSUPPORTED, "min_tokens");
    s.params.min_new = 0;
    s.params.n_top = 1;
    refused(g, &s, ERR_UNSUPPORTED, "logprobs");
    s.params.n_top = 0;
    s.width = SAMPLE_BEAMS_MAX + 1;
    refused(g, &s, ERR_BAD_INPUT, "best_of");
    s.width = 13;
    refused(g, &s, ERR_BAD_INPUT, "12 may run"); /* no matter of the context */
    nothing_is_held(g);
    engine_free(g);
}

/* Fault: what all of the memory could not hold is to come again later, for ever, or what it just
 * holds is refused. */
static void the_longest_that_fits(void **state)
{
    (void)state;
    struct engine *g = start("llama_plain", (struct engine_options){.max_seqs = 12});
    int64_t cell = (int64_t)model_kv_token_bytes(engine_resident(g)->model) * K_CELL;
    engine_free(g);
    read_all("llama_plain");
    struct search *s = &all[0];
    int64_t most = s->req[0].n_prompt + s->params.max_new;
    int64_t need = 2 * ((most + K_CELL - 1) / K_CELL + 1);
    s->width = 2;
    ready(s, s->req[0].n_prompt);
    for (int64_t lacks = 0; lacks < 2; lacks++) {
        g = start("llama_plain",
                  (struct engine_options){.max_seqs = 12, .kv_bytes = cell * (need + 1 - lacks)});
        if (lacks) {
            refused(g, s, ERR_TOO_LARGE, "keys and values of 2 texts");
        } else {
            ask(g, s);
            for (int64_t i = 0; i < s->width; i++) {
                answer_wait(s->answer[i]);
                answer_unref(s->answer[i]);
            }
        }
        nothing_is_held(g);
        engine_free(g);
    }
}

static void search_of(struct engine *g, struct search *s, uint64_t tenant)
{
    for (int64_t i = 0; i < s->width; i++)
        s->req[i].tenant = tenant;
    ask(g, s);
    for (int64_t i = 0; i < s->width; i++) {
        answer_wait(s->answer[i]);
        answer_unref(s->answer[i]);
    }
}

/* Fault: who searches all the time keeps all others from it. */
static void who_has_some_leaves_some(void **state)
{
    (void)state;
    enum { ITS = 7, SEATS = 16, HELD = SEATS / 4 - 1 };
    struct engine *g = start("llama_plain", (struct engine_options){.max_seqs = SEATS});
    read_all("llama_plain");
    struct search *s = &all[0];
    s->width = 2;
    ready(s, s->req[0].n_prompt);
    atomic_fetch_add(&g->told.hold_of[ITS].beam_seats, HELD); /* as if such ran */
    atomic_fetch_add(&g->told.beam_seats[0], HELD);
    s->req[0].tenant = ITS;
    refused(g, s, ERR_BUSY, "your beam searches");
    search_of(g, s, ITS + 1);
    atomic_fetch_sub(&g->told.hold_of[ITS].beam_seats, HELD);
    search_of(g, s, ITS);
    atomic_fetch_sub(&g->told.beam_seats[0], HELD);
    nothing_is_held(g);
    assert_int_equal(atomic_load(&g->told.hold_of[ITS].beam_seats), 0);
    assert_int_equal(atomic_load(&g->told.hold_of[ITS].beam_cells), 0);
    engine_free(g);
}

static int nothing_is_left(void **state)
{
    (void)state;
    return mem_stat().n_block == 0 && mem_stat().now_bytes == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_transformers_finds),
        cmocka_unit_test(over_short_convolutions),
        cmocka_unit_test(over_delta_rules),
        cmocka_unit_test(over_scans),
        cmocka_unit_test(one_beam_is_greedy),
        cmocka_unit_test(searches_of_adapters),
        cmocka_unit_test(one_that_leaves_takes_all),
        cmocka_unit_test(what_cannot_be_had),
        cmocka_unit_test(the_longest_that_fits),
        cmocka_unit_test(who_has_some_leaves_some),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_is_left);
}
