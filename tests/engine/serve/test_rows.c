/* SPDX-License-Identifier: Apache-2.0
 *
 * How a text ends: by its own end, by ids, by strings, by length; and what is never taken before
 * the least length. On a tiny model with a tokenizer whose tokens are short pieces of text, made
 * here, so that stop strings lie across their borders.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "tests/lib/reply.h"

#define LLAMA "tests/golden/models/llama_plain"

enum { N_VOCAB = 203, N_NEW = 50, TEXT_MAX = 8 * N_NEW, HALF = 202 /* half a character */ };

/* What a token spells: one to three of a few letters, so that pieces of text come back. */
static int piece(int32_t id, char at[4])
{
    int n = 0;
    for (int32_t left = id; n < 3 && (left > 0 || n == 0); left /= 6)
        at[n++] = (char)('a' + left % 6);
    if (id >= 6 * 6 * 5)
        at[n++] = 'g';
    return n;
}

static void link_file(const char *dir, const char *name)
{
    char from[600], to[600], here[400];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(from, sizeof from, "%s/%s/%s", here, LLAMA, name);
    snprintf(to, sizeof to, "%s/%s", dir, name);
    assert_int_equal(symlink(from, to), 0);
}

/* The model of a golden with a tokenizer beside it. */
static char *model_with_text(void)
{
    char *dir = test_dir_new(), path[600], at[4];
    struct buf b;
    struct err e = ERR_INIT;
    buf_init(&b, 1 << 20);
    buf_str(&b, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int32_t id = 0; id < HALF; id++) {
        int n = piece(id, at);
        buf_printf(&b, "%s\"%.*s\":%d", id ? "," : "", n, at, id);
    }
    buf_printf(&b, ",\"<0xE4>\":%d},\"merges\":[]},\"decoder\":{\"type\":\"Sequence\",", HALF);
    buf_str(&b, "\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}}");
    assert_good(buf_check(&b, "tokenizer.json", &e), &e);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    assert_good(aside_put(path, b.data, b.len, &e), &e);
    buf_release(&b);
    link_file(dir, "config.json");
    link_file(dir, "model.safetensors");
    return dir;
}

/* A text and where each of its tokens ends in it. */
struct text {
    char c[TEXT_MAX];
    int n, end[N_NEW];
};

static void spell(struct text *t, const struct reply *r)
{
    char at[4];
    t->n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        int n = piece(r->id[i], at);
        memcpy(t->c + t->n, at, (size_t)n);
        t->n += n;
        t->end[i] = t->n;
    }
}

struct world {
    char *dir;
    struct engine *engine;
    int32_t prompt[7];
    struct sample_bias bias; /* against half characters */
    struct gen_params params;
    struct gen_req req;
    struct reply plain; /* greedy, without any end */
    struct text text;
};

static int world_init(void **state)
{
    struct world *w = xcalloc(1, sizeof *w);
    struct engine_options o = {.load.quantize = "f32",
                               .load.threads = 2,
                               .load.ctx = 128,
                               .speculate = ENGINE_SPECULATE_OFF};
    w->dir = model_with_text();
    w->engine = engine_on(w->dir, &o);
    for (int32_t i = 0; i < 7; i++)
        w->prompt[i] = 13 * i + 5;
    w->params = gen_greedy(N_NEW);
    w->params.sample.temperature = 3; /* a text that does not go round in circles */
    w->params.sample.seed = 5;
    w->bias = (struct sample_bias){HALF, -100};
    w->params.sample.bias = &w->bias;
    w->params.sample.n_bias = 1;
    w->req = (struct gen_req){.prompt = w->prompt, .n_prompt = 7, .params = &w->params};
    reply_ask(&w->plain, w->engine, &w->req);
    engine_free(w->engine);
    o.speculate = ENGINE_SPECULATE_ALWAYS; /* ends come in the midst of guesses too */
    w->engine = engine_on(w->dir, &o);
    assert_int_equal(w->plain.n, N_NEW);
    spell(&w->text, &w->plain);
    *state = w;
    return 0;
}

static int world_free(void **state)
{
    struct world *w = *state;
    reply_release(&w->plain);
    engine_free(w->engine);
    test_dir_free(w->dir);
    free(w);
    return 0;
}

static struct gen_params world_params(const struct world *w)
{
    return w->params;
}

static void ask(const struct world *w, const struct gen_params *p, struct reply *r)
{
    struct gen_req req = w->req;
    req.params = p;
    reply_ask(r, w->engine, &req);
    if (r->why == GEN_FAILED)
        fail_msg("%s", r->end.err.msg);
    assert_memory_equal(r->id, w->plain.id, (size_t)r->n * sizeof *r->id);
}

/* ---- strings ------------------------------------------------------------------------------- */

/* Where the first stop string is whole: its end, and which; -1 where none is. */
static int find_stop(const struct text *t, const struct gen_params *p, int *index)
{
    int least = p->min_new > 1 ? t->end[p->min_new - 2] + 1 : 1;
    for (int end = least; end <= t->n; end++) {
        *index = -1;
        for (int k = 0; k < p->n_stop; k++) {
            int n = (int)p->stop[k].n;
            if (n <= end && memcmp(t->c + end - n, p->stop[k].p, (size_t)n) == 0 &&
                (*index < 0 || n > (int)p->stop[*index].n))
                *index = k;
        }
        if (*index >= 0)
            return end;
    }
    return -1;
}

static void check_safe(const struct reply *r, const struct text *t, uint64_t shown)
{
    uint64_t last = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->text_safe[i] < last || r->text_safe[i] > (uint64_t)t->end[i] ||
            r->text_safe[i] > shown)
            fail_msg("token %lld: %llu of %d bytes may be shown, %llu are", (long long)i,
                     (unsigned long long)r->text_safe[i], t->end[i], (unsigned long long)shown);
        last = r->text_safe[i];
    }
}

static void check_stop(const struct world *w, const struct gen_params *p)
{
    struct reply r;
    int index, end = find_stop(&w->text, p, &index), n_tok = 0;
    ask(w, p, &r);
    if (end < 0) {
        assert_int_equal(r.why, GEN_LENGTH);
        assert_int_equal(r.n, N_NEW);
        assert_true(r.end.text_bytes == UINT64_MAX);
        check_safe(&r, &w->text, UINT64_MAX);
    } else {
        uint64_t shown = (uint64_t)end - (p->stop_is_shown ? 0 : p->stop[index].n);
        while (w->text.end[n_tok++] < end)
            ;
        assert_int_equal(r.why, GEN_STOPPED);
        assert_int_equal(r.n, n_tok);
        assert_int_equal(r.end.stop_index, index);
        assert_int_equal(r.end.stop_id, -1);
        assert_int_equal(r.end.text_bytes, shown);
        check_safe(&r, &w->text, shown);
    }
    reply_release(&r);
}

/* Faults: a string missed across a token's border, found twice, found before the least length; a
 * piece of it shown before it is whole; the token that completes it lost. */
static void stop_strings(void **state)
{
    const struct world *w = *state;
    for (uint64_t i = 0; i < 300; i++) {
        struct gen_params p = world_params(w);
        p.n_stop = (int32_t)rng_below(1, 0, i, 3) + 1;
        p.stop_is_shown = i % 2;
        p.min_new = i % 3 ? 0 : (int64_t)rng_below(1, 1, i, 20);
        for (uint64_t k = 0; k < (uint64_t)p.n_stop; k++) {
            uint32_t n = (uint32_t)rng_below(1, 2, 3 * i + k, 7) + 1;
            uint64_t at = rng_below(1, 3, 3 * i + k, (uint64_t)w->text.n - n);
            p.stop[k] = (struct gen_text){w->text.c + at, n};
        }
        check_stop(w, &p);
    }
}

static void a_string_that_never_comes(void **state)
{
    const struct world *w = *state;
    struct gen_params p = world_params(w);
    p.n_stop = 1;
    p.stop[0] = (struct gen_text){"zzz", 3};
    check_stop(w, &p);
}

/* Faults: text that is held back until the end, and in which no stop string is looked for. */
static void a_string_at_the_very_end(void **state)
{
    const struct world *w = *state;
    struct gen_params p = world_params(w);
    struct sample_bias bias = {HALF, 100};
    struct gen_req req = w->req;
    struct reply r;
    p.sample.bias = &bias;
    p.max_new = 1;
    p.n_stop = 1;
    p.stop[0] = (struct gen_text){"\xef\xbf\xbd", 3}; /* what half a character becomes */
    p.sample.temperature = 0;
    req.params = &p;
    reply_ask(&r, w->engine, &req);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.why, GEN_STOPPED);
    assert_int_equal(r.end.stop_index, 0);
    reply_release(&r);
}

/* ---- ids and lengths ----------------------------------------------------------------------- */

static int64_t first_of(const struct reply *r, int32_t id)
{
    for (int64_t i = 0; i < r->n; i++)
        if (r->id[i] == id)
            return i;
    return r->n;
}

/* Faults: the id that ended a text among its tokens; ids of which only the first counts. */
static void stop_ids(void **state)
{
    const struct world *w = *state;
    int32_t id[3] = {w->plain.id[40], w->plain.id[20], w->plain.id[30]};
    struct gen_params p = world_params(w);
    struct reply r;
    p.stop_id = id;
    p.n_stop_id = 3;
    int64_t want = N_NEW;
    for (int i = 0; i < 3; i++)
        if (first_of(&w->plain, id[i]) < want)
            want = first_of(&w->plain, id[i]);
    ask(w, &p, &r);
    assert_int_equal(r.why, GEN_STOPPED);
    assert_int_equal(r.n, want);
    assert_int_equal(r.end.stop_id, w->plain.id[want]);
    assert_true(r.end.text_bytes == UINT64_MAX);
    reply_release(&r);
}

/* Faults: an end before the least length; one after it that is missed. The text is another one from
 * the banned end on, so only its length is known. */
static void least_length(void **state)
{
    const struct world *w = *state;
    struct gen_params p = world_params(w);
    p.stop_id = &w->plain.id[3];
    p.n_stop_id = 1;
    p.min_new = 20;
    struct gen_req req = w->req;
    struct reply r;
    req.params = &p;
    reply_ask(&r, w->engine, &req);
    assert_true(r.n >= 20);
    for (int64_t i = 0; i < 20; i++)
        assert_int_not_equal(r.id[i], w->plain.id[3]);
    if (r.why == GEN_STOPPED)
        assert_int_equal(r.end.stop_id, w->plain.id[3]);
    reply_release(&r);
}

/* Faults: eos that counts where it was to be ignored, or the reverse. A bias makes it come. */
static void eos(void **state)
{
    const struct world *w = *state;
    struct gen_params p = world_params(w);
    struct sample_bias bias = {2, 100};
    struct gen_req req = w->req;
    struct reply r;
    p.sample.temperature = 0;
    p.sample.bias = &bias;
    p.sample.n_bias = 1;
    req.params = &p;
    reply_ask(&r, w->engine, &req);
    assert_int_equal(r.why, GEN_LENGTH);
    assert_int_equal(r.id[N_NEW - 1], 2);
    reply_release(&r);
    p.ignore_eos = false;
    reply_ask(&r, w->engine, &req);
    assert_int_equal(r.why, GEN_STOPPED);
    assert_int_equal(r.n, 0);
    assert_int_equal(r.end.stop_id, 2);
    reply_release(&r);
    p.min_new = 5;
    reply_ask(&r, w->engine, &req);
    assert_int_equal(r.n, 5);
    assert_int_equal(r.end.stop_id, 2);
    reply_release(&r);
}

/* Faults: a prompt alone that waits for a token for ever, or gets one. */
static void nothing_new(void **state)
{
    const struct world *w = *state;
    struct gen_params p = world_params(w);
    struct reply r;
    p.max_new = 0;
    ask(w, &p, &r);
    assert_int_equal(r.why, GEN_LENGTH);
    assert_int_equal(r.n, 0);
    reply_release(&r);
    p.wants_prompt = true;
    p.n_top = 2;
    ask(w, &p, &r);
    assert_int_equal(r.n, 0);
    for (int i = 1; i < 7; i++)
        assert_true(r.prompt_logprob[i] < 0 && r.p_top[2 * i].logprob >= r.prompt_logprob[i]);
    reply_release(&r);
}

/* Faults: a context that is one token too short or too long. */
static void to_the_end_of_the_context(void **state)
{
    const struct world *w = *state;
    struct gen_params p = world_params(w);
    struct gen_req req = w->req;
    struct reply r;
    p.max_new = -1;
    req.params = &p;
    reply_ask(&r, w->engine, &req);
    assert_int_equal(r.why, GEN_LENGTH);
    assert_int_equal(r.n, 128 - 7);
    reply_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_strings),
        cmocka_unit_test(a_string_that_never_comes),
        cmocka_unit_test(a_string_at_the_very_end),
        cmocka_unit_test(stop_ids),
        cmocka_unit_test(least_length),
        cmocka_unit_test(eos),
        cmocka_unit_test(nothing_new),
        cmocka_unit_test(to_the_end_of_the_context),
    };
    return cmocka_run_group_tests(tests, world_init, world_free);
}
