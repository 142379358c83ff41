/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem bench engine MODEL`: what the engine does without a server. First its steps alone:
 * prompts, one stream, many streams, many short prompts at once; and, where they are asked for,
 * the many streams with adapters ("adapted"). Then the same through
 * engine_submit, so that what the engine adds to its steps shows: many streams ("served"), requests
 * for one token each ("requests"), and clients that ask again and again, as `tandem bench serve`
 * lets them ("clients"), so that what a server adds to the engine shows. Each after a warm-up, as
 * medians over rounds in which all of them take turns, so that a machine whose speed drifts is fair
 * to each.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/local/bench_adapters.h"
#include "clients/local/bench_served.h"
#include "clients/local/load.h"
#include "clients/local/profile.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"

enum { ROUNDS_MAX = 101, REQUESTS_EACH = 8, CLIENT_REQUESTS_EACH = 2 };

struct bench_values {
    struct local_options model;
    int64_t prompt, new_tokens, streams, depth, burst, input, output, rounds, adapters, rank;
    const char *mode, *only, *adapter_type;
    bool json, profile;
};

#define AT(field) offsetof(struct bench_values, field)

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    LOCAL_WEIGHTS_ROW,
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
    {.name = "input-tokens",
     .type = OPT_INT,
     .fallback = "128",
     .min = 1,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens of the prompts of clients, who are as many as streams",
     .offset = AT(input)},
    {.name = "output-tokens",
     .type = OPT_INT,
     .fallback = "16",
     .min = 1,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens that each of their two requests brings",
     .offset = AT(output)},
    {.name = "adapters",
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 1024,
     .hint = "N",
     .help = "the streams together once more, sharing so many LoRA adapters",
     .offset = AT(adapters)},
    {.name = "rank",
     .type = OPT_INT,
     .fallback = "16",
     .min = 1,
     .max = 1024,
     .hint = "N",
     .help = "of the adapters",
     .offset = AT(rank)},
    {.name = "adapter-type",
     .type = OPT_CHOICE,
     .fallback = "f32",
     .hint = "f32|bf16",
     .help = "how their files hold their numbers",
     .offset = AT(adapter_type)},
    {.name = "rounds",
     .type = OPT_INT,
     .fallback = "5",
     .min = 1,
     .max = ROUNDS_MAX,
     .hint = "N",
     .help = "rounds behind the warm-up",
     .offset = AT(rounds)},
    {.name = "case",
     .type = OPT_CHOICE,
     .fallback = "all",
     .hint = "all|prompt|one|together|served|burst|requests|clients",
     .help = "measure only this (together: and adapted)",
     .offset = AT(only)},
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

enum load_kind { LOAD_STEPS, LOAD_ADAPTED, LOAD_SERVED, LOAD_CLIENTS };

/* One thing that is timed: steps of n_seq sequences, n_tok tokens each; the same, asked for; or
 * n_step requests of each client, n_tok tokens in and n_new out. */
struct load_case {
    const char *name;
    enum load_kind kind;
    int64_t n_seq, n_tok, n_step, depth, n_new;
    double s[ROUNDS_MAX], first_ms[ROUNDS_MAX];
    double device_s[ROUNDS_MAX]; /* of the steps, what the device itself took */
    struct profile profile;
};

struct bench {
    const struct bench_values *v;
    struct engine *engine;
    const struct resident *local; /* the engine's */
    struct runner *runner, *adapted;
    struct event *from, *to; /* owned: around what a step gives its stream */
    struct bench_adapters adapters;
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
        .output = MODEL_LOGITS};
    if (longest > b->local->model->ctx)
        return err_set(e, ERR_TOO_LARGE, "%lld tokens: the context holds %lld", (long long)longest,
                       (long long)b->local->model->ctx);
    b->runner = runner_new(b->local->model, &o, b->local->stream, e);
    if (!b->runner || !v->adapters)
        return b->runner ? 0 : -1;
    o.cap[DIM_GROUP] = v->streams;
    o.lora_rank_max = (int32_t)v->rank;
    b->adapted = runner_new(b->local->model, &o, b->local->stream, e);
    b->adapters = (struct bench_adapters){.model = b->local->model,
                                          .n = v->adapters,
                                          .rank = v->rank,
                                          .is_bf16 = strcmp(v->adapter_type, "bf16") == 0};
    return b->adapted ? bench_adapters_init(&b->adapters, b->local->stream, e) : -1;
}

/* n_tok tokens of each of n_seq sequences from `pos` on, the last row of each wanted. *ns grows by
 * the time from its first launch to its last. */
static int step(struct bench *b, struct runner *r, int64_t n_seq, int64_t n_tok, int64_t pos,
                int64_t *ns, struct err *e)
{
    struct batch *in = runner_batch(r);
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
    if (r == b->adapted)
        bench_adapters_groups(&b->adapters, in);
    event_record(b->from, b->local->stream);
    if (runner_step(r, &out, e))
        return -1;
    event_record(b->to, b->local->stream);
    if (stream_sync(b->local->stream, e) || event_sync(b->from, e) || event_sync(b->to, e))
        return -1;
    *ns += event_ns(b->from, b->to);
    return 0;
}

static int run_served(struct bench *b, struct load_case *c, int64_t round, struct err *e)
{
    struct bench_served s = {.engine = b->engine,
                             .streams = c->n_seq,
                             .prompt = c->depth,
                             .new_tokens = c->n_step,
                             .round = 1}; /* beginnings of the round before are found */
    double per_s = 0;
    if (bench_served_together(&s, &per_s, e))
        return -1;
    if (round < 0)
        return 0;
    if (!(per_s > 0))
        return err_set(e, ERR_BAD_INPUT,
                       "the first stream ended before the last began: give more --new-tokens");
    c->s[round] = (double)(c->n_seq * c->n_tok * c->n_step) / per_s;
    return 0;
}

static int run_clients(struct bench *b, struct load_case *c, int64_t round, struct err *e)
{
    struct bench_served s = {.engine = b->engine,
                             .streams = c->n_seq,
                             .prompt = c->n_tok,
                             .new_tokens = c->n_new,
                             .round = (uint64_t)round + 3}; /* texts that are new each time */
    struct bench_clients got;
    int64_t n = c->n_seq * c->n_step;
    if (bench_served_clients(&s, n, &got, e))
        return -1;
    if (round >= 0) {
        c->s[round] = (double)n / got.per_s;
        c->first_ms[round] = got.first_ms;
    }
    return 0;
}

static int run_case(struct bench *b, struct load_case *c, int64_t round, struct err *e)
{
    if (c->kind == LOAD_SERVED)
        return run_served(b, c, round, e);
    if (c->kind == LOAD_CLIENTS)
        return run_clients(b, c, round, e);
    if (b->v->profile && round == 0)
        profile_clear(&c->profile);
    if (b->v->profile)
        stream_trace(b->local->stream, profile_count, &c->profile);
    struct runner *r = c->kind == LOAD_ADAPTED ? b->adapted : b->runner;
    int64_t begin = clock_ns(), device_ns = 0;
    for (int64_t i = 0; i < c->n_step; i++)
        if (step(b, r, c->n_seq, c->n_tok, c->depth + i * c->n_tok, &device_ns, e))
            return -1;
    if (round >= 0) {
        c->s[round] = (double)(clock_ns() - begin) / 1e9;
        c->device_s[round] = (double)device_ns / 1e9;
    }
    stream_trace(b->local->stream, NULL, NULL);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Tokens that count: those that clients get, where they get more than one; all others. */
static double tokens_of(const struct load_case *c)
{
    return (double)(c->n_seq * c->n_step * (c->n_new > 1 ? c->n_new : c->n_tok));
}

static void show_json(const struct load_case *c, double mid, double gbps, double first_ms,
                      double device_s)
{
    printf("{\"case\":\"%s\",\"streams\":%" PRId64
           ",\"tokens\":%.0f,\"s\":%.5f,\"best_s\":%.5f,\"tokens_per_s\":%.2f",
           c->name, c->n_seq, tokens_of(c), mid, c->s[0], tokens_of(c) / mid);
    if (c->kind == LOAD_CLIENTS)
        printf(",\"first_ms\":%.2f}\n", first_ms);
    else if (c->kind == LOAD_SERVED)
        printf(",\"weight_gbps\":%.2f}\n", gbps);
    else
        printf(",\"weight_gbps\":%.2f,\"device_s\":%.5f}\n", gbps, device_s);
}

static void show(const struct bench *b, struct load_case *c)
{
    int64_t n = b->v->rounds;
    qsort(c->s, (size_t)n, sizeof *c->s, by_value);
    qsort(c->first_ms, (size_t)n, sizeof *c->first_ms, by_value);
    qsort(c->device_s, (size_t)n, sizeof *c->device_s, by_value);
    double tokens = tokens_of(c), mid = c->s[n / 2], first_ms = c->first_ms[n / 2];
    double gbps = (double)b->local->model->block_bytes * (double)c->n_step / mid / 1e9;
    if (b->v->json) {
        show_json(c, mid, gbps, first_ms, c->device_s[n / 2]);
    } else {
        printf("%-10s %4" PRId64 " streams  %9.1f tokens/s  (best round %.1f)", c->name, c->n_seq,
               tokens / mid, tokens / c->s[0]);
        if (c->kind == LOAD_CLIENTS)
            printf("  first token after %.1f ms\n", first_ms);
        else
            printf("  weights at %.1f GB/s\n", gbps);
    }
    if (b->v->profile && c->kind <= LOAD_ADAPTED)
        profile_show(&c->profile, c->name, stderr);
}

static bool is_wanted(const struct bench *b, const struct load_case *c)
{
    if (c->kind == LOAD_ADAPTED && !b->adapted)
        return false;
    return strcmp(b->v->only, "all") == 0 || strcmp(b->v->only, c->name) == 0 ||
           (c->kind == LOAD_ADAPTED && strcmp(b->v->only, "together") == 0);
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
        {.name = "adapted",
         .kind = LOAD_ADAPTED,
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
         .kind = LOAD_CLIENTS,
         .n_seq = v->streams,
         .n_tok = v->burst,
         .n_step = REQUESTS_EACH,
         .n_new = 1},
        {.name = "clients",
         .kind = LOAD_CLIENTS,
         .n_seq = v->streams,
         .n_tok = v->input,
         .n_step = CLIENT_REQUESTS_EACH,
         .n_new = v->output}};
    for (int64_t round = -1; round < v->rounds; round++)
        for (size_t i = 0; i < sizeof c / sizeof *c; i++)
            if (is_wanted(b, &c[i]) && run_case(b, &c[i], round, e))
                return -1;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        if (is_wanted(b, &c[i]))
            show(b, &c[i]);
    return 0;
}

/* With room for what is asked for, and no more. */
static int make_engine(struct bench *b, const char *path, struct err *e)
{
    const struct bench_values *v = b->v;
    struct engine_options o = {.max_seqs = v->streams,
                               .max_waiting = v->streams,
                               .speculate = ENGINE_SPECULATE_OFF, /* a token a step */
                               .is_eager = strcmp(v->mode, "eager") == 0};
    b->engine = local_engine(path, &v->model, &o, e);
    if (!b->engine)
        return -1;
    b->local = engine_resident(b->engine);
    b->from = event_new(b->local->device, e);
    b->to = b->from ? event_new(b->local->device, e) : NULL;
    return b->to ? engine_start(b->engine, e) : -1;
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
    bench_adapters_release(&b.adapters);
    runner_free(b.adapted);
    runner_free(b.runner);
    event_free(b.from);
    event_free(b.to);
    engine_free(b.engine);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
