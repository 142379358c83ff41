/* SPDX-License-Identifier: Apache-2.0
 *
 * Guesses change no bit: what an engine says that runs every guess it finds, right or wrong, is
 * what one says that makes none. Greedy and sampled, with penalties, biases, least lengths, stop
 * ids, constraints, log-probabilities and adapters, alone, among 32, in small steps, with cells
 * that run out, with prefixes that were computed beside guesses.
 *
 * DRAFTS_N: how many generations each engine is asked for.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/grammar/matcher.h"
#include "tests/engine/token/fixture.h"
#include "tests/lib/reply.h"

/* Attention alone, and short convolutions beside it, whose cells forget: of as many tokens, both.
 */
#define LLAMA "tests/golden/models/llama_plain"
#define LFM2  "tests/golden/models/lfm2"

enum {
    N = 250,
    N_LFM2 = 100,
    PASSES_MAX = 10,
    PROMPT_MAX = 90,
    NEW_MAX = 120,
    CTX = 224,
    N_VOCAB = 203,
    N_BIAS = 6,
    GROUP = 3
};

struct ask {
    struct gen_req req;
    struct gen_params params;
    int32_t prompt[PROMPT_MAX], stop_id[2];
    struct sample_bias bias[N_BIAS];
    struct reply want;
};

enum { N_MASKS = 3 };

struct world {
    const char *model, *adapter[3]; /* directories */
    size_t n;
    struct masks *masks[N_MASKS]; /* counted */
    struct ask *ask;              /* owned: [n] */
    struct answer **answer;
    bool is_swapped; /* "1" means the second adapter, and "2" the first */
};

static uint64_t draw(uint64_t i, uint64_t what, uint64_t below)
{
    return rng_below(23, what, i, below);
}

/* A piece that comes again and again, with a token here and there that does not. */
static void draw_prompt(struct ask *a, uint64_t i)
{
    uint64_t piece = 2 + draw(i, 1, 30), shared = draw(i, 2, 2) * 40;
    a->req.n_prompt = (int64_t)draw(i, 3, draw(i, 32, 2) ? 20 : PROMPT_MAX) + 1;
    for (uint64_t k = 0; k < PROMPT_MAX; k++) {
        uint64_t at = draw(i * 100 + k, 4, 12) ? k % piece : k;
        a->prompt[k] = (int32_t)draw(at + (k < shared ? 0 : 1000 * (i + 1)), 5, N_VOCAB);
    }
}

/* Often a text over few tokens, in which pieces come back by chance and go on otherwise. */
static void draw_sampling(struct ask *a, uint64_t i)
{
    struct gen_params *p = &a->params;
    for (uint64_t k = 0; k < N_BIAS; k++)
        a->bias[k] = (struct sample_bias){(int32_t)(30 * k + draw(i * N_BIAS + k, 6, 30)),
                                          draw(i, 7, 2) ? 100 : 5};
    p->sample.bias = a->bias;
    p->sample.n_bias = draw(i, 8, 3) ? N_BIAS : 0;
    if (draw(i, 9, 3)) {
        p->sample.temperature = 0.2 + (double)draw(i, 10, 20) / 10;
        p->sample.seed = draw(i, 11, 1000000);
        p->sample.top_p = draw(i, 12, 2) ? 1 : 0.7;
        p->sample.top_k = draw(i, 13, 2) ? 0 : 20;
        p->sample.min_p = draw(i, 14, 3) ? 0 : 0.05;
    }
    p->sample.repetition = draw(i, 15, 3) ? 1 : 1.2;
    p->sample.presence = draw(i, 16, 3) ? 0 : 0.7;
    p->sample.frequency = draw(i, 17, 3) ? 0 : 0.3;
    p->sample.dry_multiplier = draw(i, 33, 8) ? 0 : 0.5;
    p->sample.dry_base = 1.75;
    p->sample.dry_allowed = 2;
    p->sample.dry_last = -1;
    p->sample.mirostat = draw(i, 34, 8) ? 0 : 2;
    p->sample.mirostat_tau = 3;
    p->sample.mirostat_eta = 0.3;
}

/* Of texts of single bytes, as another tokenizer's first ids are: some must end, some repeat. */
static void make_masks(struct masks **masks)
{
    static const char *const regex[N_MASKS] = {"([a-d]{1,3}[.!]){2,40}", "(one|two|other,)*",
                                               "[A-Z][a-z]+(-[0-9]{2}){1,9}"};
    struct err e = ERR_INIT;
    struct tokenizer *t = golden_tokenizer("gpt2");
    struct token_trie *trie = token_trie_new(t, N_VOCAB, &e);
    assert_non_null(trie);
    for (int i = 0; i < N_MASKS; i++) {
        struct grammar *g = grammar_regex(regex[i], strlen(regex[i]), &grammar_limits_default, &e);
        assert_non_null(g);
        masks[i] = masks_new(g, trie, 1 << 20);
        grammar_unref(g);
    }
    token_trie_unref(trie);
    tokenizer_free(t);
}

static void draw_ask(struct ask *a, uint64_t i)
{
    struct gen_params *p = &a->params;
    *p = gen_greedy(1 + (int64_t)draw(i, 20, NEW_MAX));
    p->ignore_eos = draw(i, 21, 2);
    p->min_new = draw(i, 22, 4) ? 0 : (int64_t)draw(i, 23, (uint64_t)p->max_new);
    p->wants_logprob = draw(i, 24, 2);
    p->n_top = (int32_t)(draw(i, 25, 3) ? 0 : 5);
    p->wants_prompt = draw(i, 26, 6) == 0;
    draw_prompt(a, i);
    draw_sampling(a, i);
    a->stop_id[0] = a->bias[0].id;
    a->stop_id[1] = (int32_t)draw(i, 27, N_VOCAB);
    p->stop_id = a->stop_id;
    p->n_stop_id = draw(i, 28, 3) ? 0 : 2;
    a->req.kind = GEN_TEXT;
    a->req.prompt = a->prompt;
    a->req.params = p;
    a->req.priority = (int32_t)draw(i, 29, 3);
}

static struct engine *start(const struct world *w, enum engine_speculate how,
                            struct engine_options o)
{
    struct err e = ERR_INIT;
    o.load.quantize = "bf16";
    o.load.threads = 2;
    o.load.ctx = CTX;
    o.max_adapters = 4;
    o.max_lora_rank = 64;
    o.speculate = how;
    struct engine *g = engine_on(w->model, &o);
    assert_good(engine_adapter_load(g, "1", w->adapter[1], &e), &e);
    assert_good(engine_adapter_load(g, "2", w->adapter[2], &e), &e);
    return g;
}

/* Of the engine: each has versions of its own. */
static void submit(struct world *w, struct engine *g, size_t i, size_t n)
{
    struct gen_req req[GROUP] = {0};
    struct err e = ERR_INIT;
    for (size_t k = 0; k < n; k++) {
        req[k] = w->ask[i + k].req;
        size_t which = draw(i + k, 30, 3);
        req[k].adapter =
            which ? engine_adapter_get(g, (which == 1) != w->is_swapped ? "1" : "2") : NULL;
    }
    assert_good(engine_submit(g, req, n, (struct gen_notify){0}, w->answer + i, &e), &e);
    for (size_t k = 0; k < n; k++)
        adapter_unref(req[k].adapter);
}

/* What came of all guesses, as the answers tell it. */
struct guesses {
    int64_t drafted, accepted;
};

static void collect(struct world *w, size_t i, const char *what, struct guesses *all)
{
    struct reply got;
    char name[128];
    snprintf(name, sizeof name, "%s: generation %zu", what, i);
    reply_wait(&got, w->answer[i], &w->ask[i].req);
    reply_same(&got, &w->ask[i].want, name);
    assert_in_range(got.end.n_accepted, 0, got.end.n_drafted);
    assert_in_range(got.end.n_accepted, 0, got.n);
    all->drafted += got.end.n_drafted;
    all->accepted += got.end.n_accepted;
    reply_release(&got);
}

/* Right ones and wrong ones, and not too few. */
static bool were_of_both_kinds(const struct world *w, const struct guesses *all)
{
    int64_t half = (int64_t)w->n / 2;
    return all->accepted > half && all->drafted - all->accepted > half;
}

/* The engine's figures are those of its answers, and guesses of both kinds ran. */
static void check_guesses(const struct world *w, struct engine *g, const struct guesses *all,
                          const char *what)
{
    struct engine_stat s = engine_stat(g);
    print_message("%s: %lld guessed, %lld right, %llu times turned out\n", what,
                  (long long)all->drafted, (long long)all->accepted,
                  (unsigned long long)s.preempted);
    assert_int_equal(s.tok_drafted, all->drafted);
    assert_int_equal(s.tok_accepted, all->accepted);
    assert_true(were_of_both_kinds(w, all));
    engine_free(g);
}

static void alone(struct world *w, struct engine_options o)
{
    struct engine *g = start(w, ENGINE_SPECULATE_ALWAYS, o);
    struct guesses all = {0};
    for (size_t i = 0; i < w->n; i++) {
        submit(w, g, i, 1);
        collect(w, i, "alone", &all);
    }
    check_guesses(w, g, &all, "alone");
}

/* At most `most` at a time, some in groups, as choices of one request are. */
static void run_all(struct world *w, struct engine *g, size_t most, const char *what,
                    struct guesses *all)
{
    size_t i = 0, n_ended = 0;
    for (size_t n; i < w->n; i += n) {
        n = i + GROUP <= w->n && draw(i, 31, 2) ? GROUP : 1;
        while (i + n - n_ended > most)
            collect(w, n_ended++, what, all);
        submit(w, g, i, n);
    }
    while (n_ended < w->n)
        collect(w, n_ended++, what, all);
}

/* Where cells are short, who runs beside whom, and so has room for guesses, is the machine's to
 * say: all run again until there were enough. */
static void together(struct world *w, struct engine_options o, size_t most, const char *what)
{
    struct engine *g = start(w, ENGINE_SPECULATE_ALWAYS, o);
    struct guesses all = {0};
    for (int i = 0; i < PASSES_MAX && !were_of_both_kinds(w, &all); i++)
        run_all(w, g, most, what, &all);
    check_guesses(w, g, &all, what);
}

static int world_init(void **state, const struct world *of)
{
    struct world *w = xcalloc(1, sizeof *w);
    const char *n = getenv("DRAFTS_N");
    *w = *of;
    w->n = n ? strtoul(n, NULL, 10) : w->n;
    make_masks(w->masks);
    w->ask = xcalloc(w->n, sizeof *w->ask);
    w->answer = xcalloc(w->n, sizeof(struct answer *));
    struct engine *g =
        start(w, ENGINE_SPECULATE_OFF, (struct engine_options){.max_waiting = (int64_t)w->n});
    for (size_t i = 0; i < w->n; i++) {
        draw_ask(&w->ask[i], i);
        w->ask[i].params.masks = draw(i, 33, 3) ? NULL : w->masks[draw(i, 34, N_MASKS)];
        submit(w, g, i, 1);
    }
    for (size_t i = 0; i < w->n; i++)
        reply_wait(&w->ask[i].want, w->answer[i], &w->ask[i].req);
    assert_int_equal(engine_stat(g).tok_drafted, 0);
    engine_free(g);
    *state = w;
    return 0;
}

static int llama_init(void **state)
{
    return world_init(state, &(struct world){.model = LLAMA,
                                             .adapter = {NULL, LLAMA "/lora", LLAMA "/lora_final"},
                                             .n = N});
}

static int lfm2_init(void **state)
{
    return world_init(state, &(struct world){.model = LFM2,
                                             .adapter = {NULL, LFM2 "/lora", LFM2 "/lora_final"},
                                             .n = N_LFM2});
}

static int world_free(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < w->n; i++)
        reply_release(&w->ask[i].want);
    for (int i = 0; i < N_MASKS; i++)
        masks_unref(w->masks[i]);
    free(w->answer);
    free(w->ask);
    free(w);
    return 0;
}

/* Faults: a row of a guess that is drawn with another place's number, or without the guesses before
 * it in its penalties; a token behind a wrong guess that is kept, or one behind a right one lost.
 */
static void alone_every_guess_changes_nothing(void **state)
{
    alone(*state, (struct engine_options){.max_seqs = 1, .max_waiting = 1});
}

/* Faults: rows of guesses given to a neighbour, or to another adapter's group; a cell with the key
 * of a wrong guess that another finds. */
static void among_32_every_guess_changes_nothing(void **state)
{
    together(*state, (struct engine_options){.max_seqs = 32}, 32, "among 32");
}

static void in_small_steps_every_guess_changes_nothing(void **state)
{
    struct engine_options o = {.max_seqs = 5, .max_batch_tokens = 16, .is_eager = true};
    together(*state, o, 10, "in small steps");
}

/* Each name gets the other's adapter half way, among those who are answered with it. Faults: keys
 * of a name's older version, guessed or not, that the newer one finds; a text that changes its
 * adapter.
 */
static void swapped_adapters_change_nothing(void **state)
{
    struct world *w = *state;
    struct engine *g = start(w, ENGINE_SPECULATE_ALWAYS, (struct engine_options){.max_seqs = 8});
    struct guesses all = {0};
    struct err e = ERR_INIT;
    size_t half = w->n / 2;
    for (size_t i = 0; i < half; i++)
        submit(w, g, i, 1);
    assert_good(engine_adapter_load(g, "1", w->adapter[2], &e), &e);
    assert_good(engine_adapter_load(g, "2", w->adapter[1], &e), &e);
    w->is_swapped = true;
    for (size_t i = half; i < w->n; i++)
        submit(w, g, i, 1);
    w->is_swapped = false;
    for (size_t i = 0; i < w->n; i++)
        collect(w, i, "swapped", &all);
    check_guesses(w, g, &all, "swapped");
}

/* Faults: guesses that are taken for text when a sequence gave its cells back. */
static void short_of_cells_every_guess_changes_nothing(void **state)
{
    const struct world *w = *state;
    struct engine_options o = {.max_seqs = 12};
    struct golden g;
    golden_init(&g, strrchr(w->model, '/') + 1, K_BF16, CTX);
    o.kv_bytes = (int64_t)model_kv_token_bytes(g.model) * K_CELL * (CTX / K_CELL + 5);
    golden_release(&g);
    together(*state, o, 12, "short of cells");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_every_guess_changes_nothing),
        cmocka_unit_test(among_32_every_guess_changes_nothing),
        cmocka_unit_test(in_small_steps_every_guess_changes_nothing),
        cmocka_unit_test(swapped_adapters_change_nothing),
        cmocka_unit_test(short_of_cells_every_guess_changes_nothing),
    };
    return cmocka_run_group_tests_name("attention", tests, llama_init, world_free) +
           cmocka_run_group_tests_name("convolutions", tests, lfm2_init, world_free);
}
