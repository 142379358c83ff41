/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of every field of a request.
 */
#include "tests/lib/test.h"

#include <math.h>

#include "engine/serve/check.h"

static const struct check_limits limits = {
    .n_vocab = 100, .ctx = 50, .generates = true, .has_tokenizer = true};

static int32_t prompt[60];
static const char letters[GEN_STOP_BYTES_MAX + 1];

struct ask {
    struct gen_params p;
    struct gen_req r;
    struct check_limits l;
};

static void ask_init(struct ask *a)
{
    *a = (struct ask){.p = {.sample = SAMPLE_PARAMS_INIT, .max_new = 10}, .l = limits};
    a->r = (struct gen_req){.prompt = prompt, .n_prompt = 5, .params = &a->p};
}

static void refused(struct ask *a, enum err_code code, const char *words)
{
    struct err e = ERR_INIT;
    int64_t max_new;
    assert_err(check_request(&a->l, &a->r, &max_new, &e), &e, code, words);
    ask_init(a);
}

static void taken(struct ask *a, int64_t want)
{
    struct err e = ERR_INIT;
    int64_t max_new;
    assert_good(check_request(&a->l, &a->r, &max_new, &e), &e);
    assert_int_equal(max_new, want);
    ask_init(a);
}

/* Faults: lengths whose sum is past the context or past int64; a prompt of nothing. */
static void lengths(void **state)
{
    (void)state;
    struct ask a;
    ask_init(&a);
    taken(&a, 10);
    a.r.n_prompt = 0;
    refused(&a, ERR_BAD_INPUT, "prompt: there is no token");
    a.r.n_prompt = 51;
    refused(&a, ERR_TOO_LARGE, "prompt: 51 tokens, the context holds 50");
    a.r.n_prompt = INT64_MAX;
    refused(&a, ERR_TOO_LARGE, "prompt");
    a.r.n_prompt = 40;
    taken(&a, 10);
    a.r.n_prompt = 41;
    refused(&a, ERR_TOO_LARGE, "max_tokens: 41 tokens of prompt and 10 to add");
    a.p.max_new = INT64_MAX;
    refused(&a, ERR_TOO_LARGE, "max_tokens");
    a.p.max_new = -2;
    refused(&a, ERR_BAD_INPUT, "max_tokens: -2");
    a.p.max_new = INT64_MIN;
    refused(&a, ERR_BAD_INPUT, "max_tokens");
    a.p.max_new = -1;
    taken(&a, 45);
    a.p.max_new = -1;
    a.r.n_prompt = 50;
    refused(&a, ERR_TOO_LARGE, "max_tokens: 50 tokens of prompt and 1 to add");
    a.p.max_new = 0;
    a.r.n_prompt = 50;
    taken(&a, 0);
    a.p.min_new = 11;
    refused(&a, ERR_BAD_INPUT, "min_tokens: 11 is not between 0 and 10");
    a.p.min_new = -1;
    refused(&a, ERR_BAD_INPUT, "min_tokens");
    a.p.min_new = 10;
    taken(&a, 10);
}

/* Faults: ids outside the vocabulary that reach a kernel or a table. */
static void ids(void **state)
{
    (void)state;
    struct ask a;
    int32_t stop_id[GEN_STOP_ID_MAX + 1] = {0};
    ask_init(&a);
    static const int32_t bad[] = {-1, 100, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        prompt[4] = bad[i];
        refused(&a, ERR_BAD_INPUT, "prompt: token");
        prompt[4] = 99;
        stop_id[1] = bad[i];
        a.p.stop_id = stop_id;
        a.p.n_stop_id = 2;
        refused(&a, ERR_BAD_INPUT, "stop_token_ids: token");
        stop_id[1] = 0;
        a.p.sample.bias = &(struct sample_bias){bad[i], 1};
        a.p.sample.n_bias = 1;
        refused(&a, ERR_BAD_INPUT, "logit_bias: token");
    }
    a.p.stop_id = stop_id;
    a.p.n_stop_id = GEN_STOP_ID_MAX;
    taken(&a, 10);
    a.p.n_stop_id = GEN_STOP_ID_MAX + 1;
    refused(&a, ERR_BAD_INPUT, "stop_token_ids");
}

/* Faults: counts that index arrays; stop strings without a tokenizer. */
static void counts(void **state)
{
    (void)state;
    struct ask a;
    ask_init(&a);
    a.p.n_top = GEN_TOP_MAX + 1;
    refused(&a, ERR_BAD_INPUT, "top_logprobs: 21");
    a.p.n_top = -1;
    refused(&a, ERR_BAD_INPUT, "top_logprobs");
    a.p.n_top = GEN_TOP_MAX;
    taken(&a, 10);
    a.p.n_stop = GEN_STOP_MAX + 1;
    refused(&a, ERR_BAD_INPUT, "stop: 17");
    a.p.n_stop = -1;
    refused(&a, ERR_BAD_INPUT, "stop");
    a.p.n_stop = 1;
    refused(&a, ERR_BAD_INPUT, "stop: a string of 0 bytes");
    a.p.n_stop = 1;
    a.p.stop[0] = (struct gen_text){letters, GEN_STOP_BYTES_MAX + 1};
    refused(&a, ERR_BAD_INPUT, "stop: a string of 1025 bytes");
    a.p.n_stop = 1;
    a.p.stop[0] = (struct gen_text){letters, 1};
    a.l.has_tokenizer = false;
    refused(&a, ERR_UNSUPPORTED, "stop: the model has no tokenizer");
}

/* Faults: sampling numbers that are passed on unchecked (their own test has them all). */
static void sampling(void **state)
{
    (void)state;
    struct ask a;
    ask_init(&a);
    static const double bad[] = {-1, 101, NAN, INFINITY, 1e308};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        a.p.sample.temperature = bad[i];
        refused(&a, ERR_BAD_INPUT, "temperature");
    }
    a.p.sample.n_bias = SAMPLE_BIAS_MAX + 1;
    refused(&a, ERR_TOO_LARGE, "logit_bias");
    a.p.sample.n_bias = -1;
    refused(&a, ERR_TOO_LARGE, "logit_bias");
}

/* Fault: thoughts that cannot end when they must, so that the text fails in its midst. */
static void thoughts(void **state)
{
    (void)state;
    static const int32_t allow[] = {3, 9}, bad[] = {1, 4, 2, 5, 9}, stop[] = {9};
    struct ask a;
    ask_init(&a);
    for (int32_t mark = 8; mark <= 9; mark++) {
        bool may = mark == 9;
        a.p.thoughts =
            (struct gen_thoughts){.is_limited = true, .most = 2, .open = 7, .close = mark};
        a.p.sample.allow = allow;
        a.p.sample.n_allow = 2;
        may ? taken(&a, 10) : refused(&a, ERR_BAD_INPUT, "allowed_token_ids");
        a.p.thoughts =
            (struct gen_thoughts){.is_limited = true, .most = 2, .open = 7, .close = mark};
        a.p.sample.bad = bad;
        a.p.sample.n_bad = 5;
        may ? refused(&a, ERR_BAD_INPUT, "bad_words") : taken(&a, 10);
        a.p.thoughts =
            (struct gen_thoughts){.is_limited = true, .most = 2, .open = 7, .close = mark};
        a.p.stop_id = stop;
        a.p.n_stop_id = a.p.min_new = 1;
        may ? refused(&a, ERR_BAD_INPUT, "min_tokens") : taken(&a, 10);
    }
}

/* Faults: an encoder that is asked to write, a decoder whose hidden rows are sold as embeddings. */
static void kinds(void **state)
{
    (void)state;
    struct ask a;
    ask_init(&a);
    a.r.kind = GEN_EMBED;
    a.r.params = NULL;
    refused(&a, ERR_UNSUPPORTED, "model: it continues texts");
    a.l.generates = false;
    refused(&a, ERR_UNSUPPORTED, "model: an encoder");
    a.l.generates = false;
    a.l.embeds = true;
    a.r.kind = GEN_EMBED;
    a.r.params = NULL;
    taken(&a, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths),  cmocka_unit_test(ids),      cmocka_unit_test(counts),
        cmocka_unit_test(sampling), cmocka_unit_test(thoughts), cmocka_unit_test(kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
