/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem bench masks MODEL`: what constraints cost. Streams that are held to a schema beside the
 * same streams without one, on one engine in turns, so that both sides meet the same machine; and
 * how long schemas take to be compiled, of a size that tools have, each another.
 *
 * The texts are of an array that has no end, drawn at temperature 1: what is written under a mask
 * meets every place of the schema, and the masks of most places are met again, as they are where
 * one schema serves many requests. The first round, in which they are made, is told apart.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/json.h"
#include "api/messages.h"
#include "clients/local/bench_served.h"
#include "clients/local/load.h"
#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

enum { ROUNDS_MAX = 101, SCHEMAS_MAX = 10000, SCHEMA_BYTES = 1 << 20 };

struct masks_values {
    struct local_options model;
    int64_t prompt, new_tokens, streams, rounds, schemas, bytes;
    bool json;
};

#define AT(field) offsetof(struct masks_values, field)
#define COUNT(name_, fallback_, min_, max_, help_, field_)                                         \
    {                                                                                              \
        .name = (name_), .type = OPT_INT, .fallback = (fallback_), .min = (min_), .max = (max_),   \
        .hint = "N", .help = (help_), .offset = AT(field_)                                         \
    }

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    LOCAL_WEIGHTS_ROW,
    {.section = "Bench",
     .name = "streams",
     .type = OPT_INT,
     .fallback = "32",
     .min = 1,
     .max = 256,
     .hint = "N",
     .help = "texts at once",
     .offset = AT(streams)},
    COUNT("prompt", "64", 1, 1 << 20, "tokens of a prompt", prompt),
    COUNT("new-tokens", "64", 2, 1 << 20, "tokens of a text", new_tokens),
    COUNT("rounds", "7", 1, ROUNDS_MAX, "rounds behind the warm-up", rounds),
    COUNT("schemas", "100", 0, SCHEMAS_MAX, "schemas that are compiled; 0: none", schemas),
    COUNT("bytes", "10000", 100, 100000, "of each of them", bytes),
    {.name = "json", .type = OPT_BOOL, .help = "print a line of JSON each", .offset = AT(json)},
};

const struct cmd_opt cmd_opt_bench_masks = {rows, sizeof rows / sizeof *rows,
                                            sizeof(struct masks_values)};

/* ---- schemas ------------------------------------------------------------------------------- */

static const char item[] =
    "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\",\"pattern\":\"^[a-z]{3}_[A-Za-z0-9]{8}$\"},"
    "\"title\":{\"type\":\"string\",\"maxLength\":60},\"state\":{\"enum\":[\"open\",\"in_progress\",\"closed\"]},"
    "\"count\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":5000},\"price\":{\"type\":\"number\"},"
    "\"created\":{\"type\":\"string\",\"format\":\"date-time\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\",\"maxLength\":12},\"maxItems\":4},\"owner\":{\"anyOf\":[{\"type\":\"object\",\"properties\":{"
    "\"name\":{\"type\":\"string\",\"maxLength\":30},\"email\":{\"type\":\"string\",\"format\":\"email\"}},"
    "\"required\":[\"name\",\"email\"],\"additionalProperties\":false},{\"type\":\"null\"}]}},\"required\":[\"id\","
    "\"title\",\"state\",\"count\",\"price\",\"created\",\"tags\",\"owner\"],\"additionalProperties\":false}";

/* One member of a schema, as descriptions of tools have them; `at` tells schemas apart. */
static void put_member(struct buf *b, uint64_t seed, uint64_t at)
{
    static const char *const kind[] = {
        "\"type\":\"string\",\"description\":\"What is shown in lists, and found by a search.\"",
        "\"type\":\"integer\",\"minimum\":1,\"maximum\":100",
        "\"type\":\"string\",\"format\":\"date-time\"",
        "\"type\":\"string\",\"enum\":[\"active\",\"pending\",\"archived\",\"failed\"]",
        "\"type\":[\"string\",\"null\"],\"maxLength\":255",
        "\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-z]{2,4}_[A-Za-z0-9]{14}$\"}",
        "\"type\":\"string\",\"format\":\"uri\"",
        "\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\",\"maxLength\":500}",
        "\"type\":\"number\",\"exclusiveMinimum\":0",
        "\"type\":\"boolean\"",
        "\"anyOf\":[{\"$ref\":\"#/$defs/node\"},{\"type\":\"null\"}]",
        "\"type\":\"string\",\"format\":\"uuid\""};
    uint64_t n = sizeof kind / sizeof *kind;
    buf_printf(b, "\"member_%" PRIu64 "_%" PRIu64 "\":{%s}", seed, at,
               kind[rng_below(11, seed, at, n)]);
}

/* Objects of eight members in one another and side by side, until there are so many bytes. */
static void put_schema(struct buf *b, uint64_t seed, size_t bytes)
{
    uint64_t at = 0;
    buf_str(
        b,
        "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"next\":{\"anyOf\":[{\"$ref\":"
        "\"#/$defs/node\"},{\"type\":\"null\"}]},\"value\":");
    buf_str(b, item);
    buf_str(b, "},\"required\":[\"value\"]}},\"type\":\"object\",\"properties\":{");
    while (b->len < bytes) {
        buf_printf(b, "%s\"group_%" PRIu64 "\":{\"type\":\"object\",\"properties\":{",
                   at ? "," : "", at);
        for (int i = 0; i < 8; i++) {
            buf_str(b, i ? "," : "");
            put_member(b, seed, at++);
        }
        buf_printf(b,
                   "},\"required\":[\"member_%" PRIu64 "_%" PRIu64 "\"],"
                   "\"additionalProperties\":false}",
                   seed, at - 1);
    }
    buf_str(b, "},\"additionalProperties\":false}");
}

struct bench {
    const struct masks_values *v; /* borrowed */
    struct engine *engine;        /* owned */
    struct masks *masks;          /* owned */
};

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* As a request has it compiled: read, made, its likely masks warmed. */
static struct masks *compiled(struct engine *g, const struct buf *text, struct err *e)
{
    struct arena a;
    struct jvalue v;
    struct api_error fault = {0};
    struct masks *m = NULL;
    arena_init(&a, 64 << 20);
    json_t *root = api_json_object(&a, text->data, text->len, &fault);
    if (!root)
        err_set(e, ERR_BAD_INPUT, "%s", fault.message);
    struct constraint c = {.kind = CONSTRAINT_SCHEMA,
                           .field = "schema",
                           .text = {text->data, (int64_t)text->len},
                           .schema = &v};
    if (root && !api_jvalue(&a, root, &v, e))
        m = engine_constraint(g, &c, 0, e);
    arena_release(&a);
    return m;
}

/* ---- compiling ----------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int bench_compile(struct bench *b, struct err *e)
{
    int64_t n = b->v->schemas, size = 0;
    double *ms = xcalloc((size_t)n + 1, sizeof *ms);
    struct buf text;
    int rc = 0;
    buf_init(&text, SCHEMA_BYTES);
    for (int64_t i = 0; i < n && !rc; i++) {
        buf_clear(&text);
        put_schema(&text, (uint64_t)i + 1, (size_t)b->v->bytes);
        size += (int64_t)text.len;
        double t0 = cpu_ms();
        struct masks *m = compiled(b->engine, &text, e);
        ms[i] = cpu_ms() - t0;
        masks_unref(m);
        rc = m ? 0 : -1;
    }
    buf_release(&text);
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    double p50 = ms[n / 2], p99 = ms[n * 99 / 100];
    if (!rc && n && b->v->json)
        printf("{\"case\":\"compile\",\"schemas\":%" PRId64 ",\"bytes\":%" PRId64
               ",\"p50_ms\":%.2f,\"p99_ms\":%.2f}\n",
               n, size / n, p50, p99);
    else if (!rc && n)
        printf("compile   %" PRId64 " schemas of %" PRId64
               " bytes: CPU time p50 %.1f ms, p99 %.1f ms\n",
               n, size / n, p50, p99);
    free(ms);
    return rc;
}

/* ---- streams ------------------------------------------------------------------------------- */

struct rates {
    double first, free[ROUNDS_MAX], held[ROUNDS_MAX], ratio[ROUNDS_MAX];
};

static int run_round(struct bench *b, int64_t round, struct rates *r, struct err *e)
{
    struct bench_served s = {.engine = b->engine,
                             .streams = b->v->streams,
                             .prompt = b->v->prompt,
                             .new_tokens = b->v->new_tokens,
                             .temperature = 1};
    double rate[2];
    for (int i = 0; i < 2; i++) { /* who is first changes from round to round */
        int is_held = (i + (int)round) & 1;
        s.masks = is_held ? b->masks : NULL;
        s.round = (uint64_t)(2 * round + i + 3);
        if (bench_served_together(&s, &rate[is_held], e))
            return -1;
    }
    if (round < 0) {
        r->first = rate[1] / rate[0];
        return 0;
    }
    r->free[round] = rate[0];
    r->held[round] = rate[1];
    r->ratio[round] = rate[1] / rate[0];
    return 0;
}

static void show(const struct bench *b, struct rates *r)
{
    size_t n = (size_t)b->v->rounds;
    qsort(r->free, n, sizeof *r->free, by_value);
    qsort(r->held, n, sizeof *r->held, by_value);
    qsort(r->ratio, n, sizeof *r->ratio, by_value);
    double least = r->ratio[0], most = r->ratio[n - 1];
    if (b->v->json)
        printf("{\"case\":\"streams\",\"streams\":%" PRId64
               ",\"free_per_s\":%.2f,\"held_per_s\":%.2f,\"ratio\":%.4f,\"ratio_least\":%.4f,"
               "\"ratio_most\":%.4f,\"ratio_first\":%.4f}\n",
               b->v->streams, r->free[n / 2], r->held[n / 2], r->ratio[n / 2], least, most,
               r->first);
    else
        printf(
            "streams   %" PRId64 ": %.1f tokens/s, held to a schema %.1f  x %.3f (%.3f to %.3f), "
            "in the first round x %.3f\n",
            b->v->streams, r->free[n / 2], r->held[n / 2], r->ratio[n / 2], least, most, r->first);
}

static int bench_streams(struct bench *b, struct err *e)
{
    struct rates *r = xcalloc(1, sizeof *r);
    struct buf text;
    int rc = 0;
    buf_init(&text, SCHEMA_BYTES);
    buf_printf(&text, "{\"type\":\"array\",\"minItems\":1000000,\"items\":%s}", item);
    b->masks = compiled(b->engine, &text, e);
    rc = b->masks ? 0 : -1;
    for (int64_t round = -1; round < b->v->rounds && !rc; round++)
        rc = run_round(b, round, r, e);
    if (!rc)
        show(b, r);
    masks_unref(b->masks);
    buf_release(&text);
    free(r);
    return rc;
}

int cmd_bench_masks(const struct opt *o)
{
    struct err e = ERR_INIT;
    struct bench b = {.v = o->values};
    struct engine_options with = {.max_seqs = b.v->streams, .max_waiting = b.v->streams};
    b.engine = local_engine(o->arg[0], &b.v->model, &with, &e);
    int rc = b.engine ? engine_start(b.engine, &e) : -1;
    if (!rc)
        rc = bench_streams(&b, &e) || bench_compile(&b, &e) ? -1 : 0;
    engine_free(b.engine);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
