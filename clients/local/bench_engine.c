/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem bench engine MODEL`: what the engine does without a server. First its steps alone:
 * prompts, one stream, many streams, many short prompts at once. Then the same through
 * engine_submit, so that what the engine adds to its steps shows: many streams ("served"), and
 * requests for one token each ("requests"). Each after a warm-up, as medians over rounds in which
 * all of them take turns, so that a machine whose speed drifts is fair to each.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/local/bench_served.h"
#include "clients/local/load.h"
#include "clients/local/profile.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"

enum { ROUNDS_MAX = 101, REQUESTS_EACH = 8 };

struct bench_values {
    struct local_options model;
    int64_t prompt, new_tokens, streams, depth, burst, rounds;
    const char *mode;
    bool json, profile;
};

#define AT(field) offsetof(struct bench_values, field)

static const struct opt_row rows[] = {
    LOCAL_MODEL_ROWS,
    {.section = "Bench",
     .name = "prompt",
     .type = OPT_INT,
     .fallback = "512",
     .min = 1,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens of the prompt",
     .offset = AT(prompt)},
    {.name = "new-tokens",
     .type = OPT_INT,
     .fallback = "32",
     .min = 1,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens that each stream adds in a round",
     .offset = AT(new_tokens)},
    {.name = "streams",
     .type = OPT_INT,
     .fallback = "32",
     .min = 1,
     .max = 1024,
     .hint = "N",
     .help = "streams that decode together",
     .offset = AT(streams)},
    {.name = "depth",
     .type = OPT_INT,
     .fallback = "64",
     .min = 0,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens that stand before those that streams add",
     .offset = AT(depth)},
    {.name = "burst",
     .type = OPT_INT,
     .fallback = "8",
     .min = 1,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens of each of the prompts that all streams bring at once",
     .offset = AT(burst)},
    {.name = "rounds",
     .type = OPT_INT,
     .fallback = "5",
     .min = 1,
     .max = ROUNDS_MAX,
     .hint = "N",
     .help = "rounds behind the warm-up",
     .offset = AT(rounds)},
    {.name = "mode",
     .type = OPT_CHOICE,
     .fallback = "static",
     .hint = "static|eager",
     .help = "run a compiled plan, or op by op",
     .offset = AT(mode)},
    {.name = "profile",
     .type = OPT_BOOL,
     .help = "print the time of each kernel over all rounds",
     .offset = AT(profile)},
    {.name = "json", .type = OPT_BOOL, .help = "print a line of JSON each", .offset = AT(json)},
};

const struct cmd_opt cmd_opt_bench_engine = {rows, sizeof rows / sizeof *rows,
                                             sizeof(struct bench_values)};

enum load_kind { LOAD_STEPS, LOAD_SERVED, LOAD_REQUESTS };

/* One thing that is timed: steps of n_seq sequences, n_tok tokens each; or the same, asked for. */
struct load_case {
    const char *name;
    enum load_kind kind;
    int64_t n_seq, n_tok, n_step, depth;
    double s[ROUNDS_MAX];
    struct profile profile;
};

struct bench {
    const struct bench_values *v;
    struct engine *engine;
    const struct resident *local; /* the engine's */
    struct runner *runner;
    int64_t cells_each;
};

static int make_runner(struct bench *b, struct err *e)
{
    const struct bench_values *v = b->v;
    int64_t deep = v->depth + v->new_tokens, longest = v->prompt > deep ? v->prompt : deep;
    longest = v->burst > longest ? v->burst : longest;
    int64_t burst = v->burst * v->streams, most = v->prompt > burst ? v->prompt : burst;
    b->cells_each = (longest + K_CELL - 1) / K_CELL;
    struct runner_options o = {
        .cap = {[DIM_TOK] = most, [DIM_OUT] = v->streams, [DIM_SEQ] = v->streams, [DIM_GROUP] = 1},
        .n_cell = b->cells_each * v->streams,
        .is_eager = strcmp(v->mode, "eager") == 0,
        .passes = PASS_ALL,
        .head = MODEL_LOGITS};
    if (longest > b->local->model->ctx)
        return err_set(e, ERR_TOO_LARGE, "%lld tokens: the context holds %lld", (long long)longest,
                       (long long)b->local->model->ctx);
    b->runner = runner_new(b->local->model, &o, b->local->stream, e);
    return b->runner ? 0 : -1;
}

/* n_tok tokens of each of n_seq sequences from `pos` on, the last row of each wanted. */
static int step(struct bench *b, int64_t n_seq, int64_t n_tok, int64_t pos, struct err *e)
{
    struct batch *in = runner_batch(b->runner);
    struct op_view out;
    int32_t at = 0;
    in->q_start[0] = 0;
    for (int32_t s = 0; s < n_seq; s++) {
        for (int64_t i = 0; i < n_tok; i++, at++) {
            in->token[at] = (int32_t)((s * 31 + pos + i) * 7919 % b->local->model->cfg.n_vocab);
            in->pos[at] = (int32_t)(pos + i);
            in->seq_of[at] = s;
            in->segment[at] = 0;
        }
        for (int32_t c = 0; c < b->cells_each; c++)
            in->cell[s * in->cell_stride + c] = (int32_t)(s * b->cells_each + c);
        in->kv_len[s] = (int32_t)(pos + n_tok);
        in->out_row[s] = at - 1;
        in->q_start[s + 1] = at;
    }
    in->n[DIM_TOK] = at;
    in->n[DIM_SEQ] = in->n[DIM_OUT] = n_seq;
    in->n[DIM_GROUP] = 0;
    if (runner_step(b->runner, &out, e))
        return -1;
    return stream_sync(b->local->stream, e);
}

/* Streams find the beginnings of the round before; requests are new ones each time. */
static int run_asked(struct bench *b, struct load_case *c, int64_t round, struct err *e)
{
    struct bench_served s = {.engine = b->engine,
                             .streams = c->n_seq,
                             .prompt = c->kind == LOAD_SERVED ? c->depth : c->n_tok,
                             .new_tokens = c->n_step,
                             .round = c->kind == LOAD_SERVED ? 1 : (uint64_t)round + 3};
    double per_s = 0, n_tok = (double)(c->n_seq * c->n_tok * c->n_step);
    int rc = c->kind == LOAD_SERVED ? bench_served_together(&s, &per_s, e)
                                    : bench_served_requests(&s, c->n_seq * c->n_step, &per_s, e);
    if (c->kind == LOAD_REQUESTS)
        per_s *= (double)c->n_tok;
    if (rc || round < 0)
        return rc;
    if (!(per_s > 0))
        return err_set(e, ERR_BAD_INPUT,
                       "the first stream ended before the last began: give more --new-tokens");
    c->s[round] = n_tok / per_s;
    return 0;
}

static int run_case(struct bench *b, struct load_case *c, int64_t round, struct err *e)
{
    if (c->kind != LOAD_STEPS)
        return run_asked(b, c, round, e);
    if (b->v->profile && round == 0)
        profile_clear(&c->profile);
    if (b->v->profile)
        stream_trace(b->local->stream, profile_count, &c->profile);
    int64_t begin = clock_ns();
    for (int64_t i = 0; i < c->n_step; i++)
        if (step(b, c->n_seq, c->n_tok, c->depth + i * c->n_tok, e))
            return -1;
    if (round >= 0)
        c->s[round] = (double)(clock_ns() - begin) / 1e9;
    stream_trace(b->local->stream, NULL, NULL);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void show(const struct bench *b, struct load_case *c)
{
    int64_t n = b->v->rounds;
    double tokens = (double)(c->n_seq * c->n_tok * c->n_step);
    qsort(c->s, (size_t)n, sizeof *c->s, by_value);
    double mid = c->s[n / 2];
    if (b->v->json)
        printf("{\"case\":\"%s\",\"streams\":%" PRId64
               ",\"tokens\":%.0f,\"s\":%.5f,\"best_s\":%.5f,"
               "\"tokens_per_s\":%.2f,\"weight_gbps\":%.2f}\n",
               c->name, c->n_seq, tokens, mid, c->s[0], tokens / mid,
               (double)b->local->model->block_bytes * (double)c->n_step / mid / 1e9);
    else
        printf("%-10s %4" PRId64
               " streams  %9.1f tokens/s  (best round %.1f)  weights at %.1f GB/s\n",
               c->name, c->n_seq, tokens / mid, tokens / c->s[0],
               (double)b->local->model->block_bytes * (double)c->n_step / mid / 1e9);
    if (b->v->profile && c->kind == LOAD_STEPS)
        profile_show(&c->profile, c->name, stderr);
}

static int run_all(struct bench *b, struct err *e)
{
    const struct bench_values *v = b->v;
    struct load_case c[] = {
        {.name = "prompt", .n_seq = 1, .n_tok = v->prompt, .n_step = 1},
        {.name = "one", .n_seq = 1, .n_tok = 1, .n_step = v->new_tokens, .depth = v->depth},
        {.name = "together",
         .n_seq = v->streams,
         .n_tok = 1,
         .n_step = v->new_tokens,
         .depth = v->depth},
        {.name = "served",
         .kind = LOAD_SERVED,
         .n_seq = v->streams,
         .n_tok = 1,
         .n_step = v->new_tokens,
         .depth = v->depth / K_CELL * K_CELL + 1}, /* all but one token found standing */
        {.name = "burst", .n_seq = v->streams, .n_tok = v->burst, .n_step = 1},
        {.name = "requests",
         .kind = LOAD_REQUESTS,
         .n_seq = v->streams,
         .n_tok = v->burst,
         .n_step = REQUESTS_EACH}};
    for (int64_t round = -1; round < v->rounds; round++)
        for (size_t i = 0; i < sizeof c / sizeof *c; i++)
            if (run_case(b, &c[i], round, e))
                return -1;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        show(b, &c[i]);
    return 0;
}

/* With room for what is asked for, and no more. */
static int make_engine(struct bench *b, const char *path, struct err *e)
{
    const struct bench_values *v = b->v;
    struct engine_options o = {.max_seqs = v->streams,
                               .max_waiting = v->streams,
                               .is_eager = strcmp(v->mode, "eager") == 0};
    b->engine = local_engine(path, &v->model, &o, e);
    if (!b->engine)
        return -1;
    b->local = engine_resident(b->engine);
    return engine_start(b->engine, e);
}

int cmd_bench_engine(const struct opt *o)
{
    struct bench b = {.v = o->values};
    struct err e = ERR_INIT;
    int rc = make_engine(&b, o->arg[0], &e);
    if (!rc)
        rc = make_runner(&b, &e);
    if (!rc)
        rc = run_all(&b, &e);
    runner_free(b.runner);
    engine_free(b.engine);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
