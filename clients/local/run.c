/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem run`: one generation on stdout, without a server. What it cost goes to stderr, where a
 * terminal or --stats asks for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/local/bundled.h"
#include "clients/local/load.h"
#include "clients/local/profile.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/comm/comm.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"
#include "engine/sample/sampler.h"
#include "engine/token/tokenizer.h"

enum { TEXT_BYTES_MAX = 64 << 20, CHUNK = 512 };

struct run_values {
    struct local_options model;
    const char *prompt, *ids, *mode;
    int64_t n, top_k, seed;
    double temperature, top_p, min_p;
    bool stats, ignore_eos, json, profile;
};

#define AT(field) offsetof(struct run_values, field)

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    {.section = "Text",
     .name = "prompt",
     .letter = 'p',
     .type = OPT_TEXT,
     .hint = "TEXT",
     .help = "what to go on from; `-`: read it from stdin",
     .offset = AT(prompt)},
    {.name = "ids",
     .type = OPT_TEXT,
     .hint = "N,N,...",
     .help = "the prompt as token ids; the answer is then ids too",
     .offset = AT(ids)},
    {.name = "max-tokens",
     .letter = 'n',
     .type = OPT_INT,
     .fallback = "128",
     .min = 0,
     .max = 1 << 30,
     .hint = "N",
     .help = "tokens to add at most",
     .offset = AT(n)},
    {.name = "temperature",
     .type = OPT_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 100,
     .hint = "T",
     .help = "0: always the likeliest token",
     .offset = AT(temperature)},
    {.name = "top-k",
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 1 << 30,
     .hint = "K",
     .help = "draw from the K likeliest; 0: all",
     .offset = AT(top_k)},
    {.name = "top-p",
     .type = OPT_DOUBLE,
     .fallback = "1",
     .min = 0,
     .max = 1,
     .hint = "P",
     .help = "draw from the likeliest that make up P",
     .offset = AT(top_p)},
    {.name = "min-p",
     .type = OPT_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .hint = "P",
     .help = "draw from those with P times the likeliest's share",
     .offset = AT(min_p)},
    {.name = "seed",
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 9007199254740992.0,
     .hint = "S",
     .help = "the same seed draws the same text",
     .offset = AT(seed)},
    {.name = "ignore-eos",
     .type = OPT_BOOL,
     .help = "go on behind the end of a text",
     .offset = AT(ignore_eos)},
    {.section = "Running",
     .name = "mode",
     .type = OPT_CHOICE,
     .fallback = "static",
     .hint = "static|eager",
     .help = "run a compiled plan, or op by op; the bits are the same",
     .offset = AT(mode)},
    {.name = "tp",
     .type = OPT_INT,
     .fallback = "1",
     .min = 1,
     .max = COMM_RANK_MAX,
     .hint = "N",
     .help = "ranks that share the model, as threads; under mpirun each process is one",
     .offset = AT(model.tp)},
    {.name = "stats",
     .type = OPT_BOOL,
     .help = "print times and rates on stderr",
     .offset = AT(stats)},
    {.name = "profile",
     .type = OPT_BOOL,
     .help = "print the time of each kernel on stderr",
     .offset = AT(profile)},
    {.name = "json",
     .type = OPT_BOOL,
     .help = "print times and rates as JSON on stderr",
     .offset = AT(json)},
};

const struct cmd_opt cmd_opt_run = {rows, sizeof rows / sizeof *rows, sizeof(struct run_values)};

struct run {
    const struct run_values *v;
    struct resident local;
    VEC(int32_t) ids; /* the prompt and what follows */
    struct runner *runner;
    struct sampler *sampler;
    struct detok *detok;
    struct buf text;
    float *row; /* one row of logits on the host */
    struct profile profile;
    int64_t n_prompt, begin_ns, loaded_ns, first_ns, end_ns;
};

static int read_stdin(struct buf *b, struct err *e)
{
    char part[4096];
    size_t n;
    while ((n = fread(part, 1, sizeof part, stdin)) > 0)
        buf_add(b, part, n);
    return ferror(stdin) ? err_sys(e, "reading stdin") : buf_check(b, "the prompt", e);
}

static int parse_ids(struct run *r, struct err *e)
{
    const char *at = r->v->ids;
    for (char *end; *at; at = *end == ',' ? end + 1 : end) {
        long long id = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ',') || id < 0 || id > INT32_MAX)
            return err_set(e, ERR_BAD_INPUT, "--ids: token ids with commas between them");
        vec_push(&r->ids, (int32_t)id);
    }
    return 0;
}

static int encode(struct run *r, const struct buf *text, struct err *e)
{
    struct tok_list list;
    tok_list_init(&list, TEXT_BYTES_MAX, false);
    int rc = tokenizer_encode(r->local.tokenizer, text->data ? text->data : "", text->len, true,
                              true, &list, e);
    for (size_t i = 0; i < list.n && !rc; i++)
        vec_push(&r->ids, list.id[i]);
    tok_list_release(&list);
    return rc;
}

static int read_prompt(struct run *r, struct err *e)
{
    struct buf text;
    int rc = -1;
    if (r->v->ids)
        return parse_ids(r, e);
    if (!r->v->prompt)
        return err_set(e, ERR_BAD_INPUT, "give a prompt with -p TEXT, or -p - to read stdin");
    buf_init(&text, TEXT_BYTES_MAX);
    if (strcmp(r->v->prompt, "-") == 0 ? read_stdin(&text, e) : buf_str(&text, r->v->prompt))
        goto done;
    if (!r->local.tokenizer) {
        err_set(e, ERR_NOT_FOUND, "%s: there is no tokenizer.json; give the prompt with --ids",
                r->local.dir.path);
        goto done;
    }
    r->detok = detok_new(r->local.tokenizer, true);
    rc = encode(r, &text, e);
done:
    buf_release(&text);
    return rc;
}

static int make_runner(struct run *r, struct err *e)
{
    const struct model *m = r->local.model;
    int64_t room = r->n_prompt + r->v->n;
    struct runner_options o = {
        .cap = {[DIM_TOK] = CHUNK, [DIM_OUT] = 1, [DIM_SEQ] = 1, [DIM_GROUP] = 1},
        .n_cell = (room + K_CELL - 1) / K_CELL + 1,
        .n_feed = room,
        .is_eager = strcmp(r->v->mode, "eager") == 0,
        .passes = PASS_ALL,
        .output = MODEL_LOGITS};
    if (m->cfg.is_encoder)
        return err_set(e, ERR_UNSUPPORTED, "an encoder gives vectors, not text");
    if (r->n_prompt < 1)
        return err_set(e, ERR_BAD_INPUT, "the prompt has no token");
    if (room > m->ctx)
        return err_set(e, ERR_TOO_LARGE,
                       "%lld tokens of prompt and %lld to add: the context holds %lld",
                       (long long)r->n_prompt, (long long)r->v->n, (long long)m->ctx);
    r->runner = runner_new(m, &o, r->local.stream, e);
    r->sampler = r->runner ? sampler_new(m->cfg.n_vocab, device_kernels(r->local.device), e) : NULL;
    r->row =
        r->sampler ? try_alloc((size_t)m->cfg.n_vocab, sizeof *r->row, "a row of logits", e) : NULL;
    return r->row ? 0 : -1;
}

static bool is_end(const struct run *r, int32_t id)
{
    const struct generation *g = &r->local.dir.generation;
    for (int i = 0; i < g->n_eos && !r->v->ignore_eos; i++)
        if (g->eos[i] == id)
            return true;
    return false;
}

static int emit(struct run *r, int32_t id, struct err *e)
{
    if (!r->detok) {
        printf("%s%d", r->ids.n > (size_t)r->n_prompt ? "," : "", id);
        return 0;
    }
    buf_clear(&r->text);
    if (detok_push(r->detok, id, &r->text, e))
        return -1;
    if (r->text.len) /* characters may come in parts */
        fwrite(r->text.data, 1, r->text.len, stdout);
    fflush(stdout);
    return 0;
}

static int feed(struct run *r, int64_t pos, int64_t n, bool wants, struct err *e)
{
    struct op_view out;
    if (runner_feed(r->runner, r->ids.at + pos, n, pos, wants, &out, e))
        return -1;
    if (!wants)
        return 0;
    stream_copy(r->local.stream, r->row, out.p, (size_t)out.shape.cols * sizeof *r->row,
                COPY_FROM_DEVICE);
    return stream_sync(r->local.stream, e);
}

static int generate(struct run *r, struct err *e)
{
    const struct run_values *v = r->v;
    struct sample_params p = {.temperature = v->temperature,
                              .top_p = v->top_p,
                              .min_p = v->min_p,
                              .top_k = v->top_k,
                              .seed = (uint64_t)v->seed,
                              .repetition = 1};
    struct sample_row row = {.logits = r->row, .params = &p};
    struct sample_taken taken;
    if (sample_check(&p, r->local.model->cfg.n_vocab, e))
        return -1;
    if (v->profile)
        profile_watch(&r->profile, r->local.stream);
    for (int64_t pos = 0; pos < r->n_prompt; pos += CHUNK) {
        int64_t n = r->n_prompt - pos < CHUNK ? r->n_prompt - pos : CHUNK;
        if (feed(r, pos, n, pos + n == r->n_prompt, e))
            return -1;
    }
    r->first_ns = clock_ns();
    if (v->profile)
        profile_show(&r->profile, "prompt", stderr);
    profile_clear(&r->profile);
    for (int64_t i = 0; i < v->n; i++) {
        row.place = (uint64_t)i;
        if (sampler_next(r->sampler, &row, &taken, e))
            return -1;
        if (is_end(r, taken.id))
            break;
        if (emit(r, taken.id, e))
            return -1;
        vec_push(&r->ids, taken.id);
        if (i + 1 < v->n && feed(r, r->n_prompt + i, 1, true, e))
            return -1;
    }
    r->end_ns = clock_ns();
    return 0;
}

static int finish(struct run *r, struct err *e)
{
    buf_clear(&r->text);
    if (r->detok && detok_finish(r->detok, &r->text, e))
        return -1;
    if (r->text.len)
        fwrite(r->text.data, 1, r->text.len, stdout);
    putchar('\n');
    return 0;
}

static void show_stats(const struct run *r)
{
    int64_t n = (int64_t)r->ids.n - r->n_prompt;
    double load = (double)(r->loaded_ns - r->begin_ns) / 1e9;
    double prompt = (double)(r->first_ns - r->loaded_ns) / 1e9;
    double rest = (double)(r->end_ns - r->first_ns) / 1e9;
    double rate = n > 1 && rest > 0 ? (double)(n - 1) / rest : 0;
    double first = (double)(r->first_ns - r->begin_ns) / 1e9;
    if (r->v->json)
        fprintf(stderr,
                "{\"load_s\":%.4f,\"prompt_tokens\":%" PRId64
                ",\"prompt_s\":%.4f,\"first_token_s\":%.4f,\"new_tokens\":%" PRId64
                ",\"decode_s\":%.4f,\"decode_per_s\":%.2f,\"weight_bytes\":%zu}\n",
                load, r->n_prompt, prompt, first, n, rest, rate, r->local.model->block_bytes);
    else if (r->v->stats)
        fprintf(stderr,
                "loaded in %.2f s; prompt of %" PRId64 " tokens in %.3f s (%.0f/s); %" PRId64
                " tokens in %.3f s (%.1f/s)\n",
                load, r->n_prompt, prompt, prompt > 0 ? (double)r->n_prompt / prompt : 0, n, rest,
                rate);
}

/* As the only rank, or as rank 0 of `group`. */
static int run_here(const struct opt *o, const char *path, struct comm *group)
{
    struct run r = {.v = o->values, .begin_ns = clock_ns()};
    struct local_options model = r.v->model;
    struct err e = ERR_INIT;
    buf_init(&r.text, TEXT_BYTES_MAX);
    model.group = group;
    int rc = local_load(&r.local, path, &model, !r.v->ids, &e);
    if (!rc)
        rc = read_prompt(&r, &e);
    r.n_prompt = (int64_t)r.ids.n;
    if (!rc)
        rc = make_runner(&r, &e);
    r.loaded_ns = clock_ns();
    if (!rc)
        rc = generate(&r, &e) || finish(&r, &e) ? -1 : 0;
    if (!rc && r.v->profile)
        profile_show(&r.profile, "new tokens", stderr);
    if (!rc)
        show_stats(&r);
    mem_free(r.row);
    sampler_free(r.sampler);
    runner_free(r.runner);
    detok_free(r.detok);
    vec_release(&r.ids);
    buf_release(&r.text);
    resident_release(&r.local);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

static int run_on(const struct opt *o, const char *path)
{
    const struct run_values *v = o->values;
    struct comm *group;
    struct err e = ERR_INIT;
    if (local_group(0, &group, &e))
        return cmd_fail(o, &e);
    if (!group || comm_rank(group) == 0)
        return run_here(o, path, group);
    return local_follow(path, &v->model, group, NULL, &e) ? cmd_fail(o, &e) : CMD_GOOD;
}

int cmd_run(const struct opt *o)
{
    struct err e = ERR_INIT;
    char *bundled = o->n_arg ? NULL : bundled_model(&e);
    if (!o->n_arg && !bundled)
        return cmd_fail(o, &e);
    int rc = run_on(o, bundled ? bundled : o->arg[0]);
    free(bundled);
    return rc;
}
