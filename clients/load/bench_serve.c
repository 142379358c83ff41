/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem bench serve`: puts load on any server that speaks OpenAI's API and says what it bore, in
 * one stage for each number of clients, or one at a rate of arrival.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/cli/cmd.h"
#include "clients/load/probe.h"
#include "clients/load/report.h"
#include "engine/base/mem.h"
#include "engine/base/num.h"

enum { STAGES_MAX = 32, REQUESTS_EACH = 8 };

struct serve_values {
    const char *url, *model, *endpoint, *prompt, *concurrency, *api_key, *body;
    double rate, duration, timeout, temperature;
    int64_t requests, warmup, input_tokens, output_tokens, shared_prefix, vocab, seed;
    bool stream, ignore_eos, json;
};

#define AT(field) offsetof(struct serve_values, field)

static const struct opt_row rows[] = {
    {.section = "Server",
     .name = "url",
     .type = OPT_TEXT,
     .fallback = "http://127.0.0.1:8080",
     .hint = "URL",
     .help = "where it listens; /v1 may stand behind it or not",
     .offset = AT(url)},
    {.name = "model",
     .type = OPT_TEXT,
     .hint = "NAME",
     .help = "the model to ask for; default: the first that the server lists",
     .offset = AT(model)},
    {.name = "api-key",
     .type = OPT_TEXT,
     .hint = "KEY",
     .help = "sent as bearer; better given as TANDEM_API_KEY",
     .offset = AT(api_key)},
    {.name = "endpoint",
     .type = OPT_CHOICE,
     .fallback = "completions",
     .hint = "completions|chat",
     .help = "which of the two is asked",
     .offset = AT(endpoint)},
    {.section = "Load",
     .name = "concurrency",
     .letter = 'c',
     .type = OPT_TEXT,
     .hint = "N,N,..",
     .help = "clients that each wait for their answer before they ask again; one stage for each "
             "number (default 1). With --rate: connections at most (default 1024)",
     .offset = AT(concurrency)},
    {.name = "rate",
     .type = OPT_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 1e6,
     .hint = "R",
     .help = "instead: so many requests a second set out at random, whoever still waits; times run "
             "from when a request was due",
     .offset = AT(rate)},
    {.name = "requests",
     .letter = 'n',
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .hint = "N",
     .help = "of a stage; 0: until --duration, or 8 for each client",
     .offset = AT(requests)},
    {.name = "duration",
     .type = OPT_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 1e6,
     .hint = "S",
     .help = "seconds after which a stage sends no more",
     .offset = AT(duration)},
    {.name = "warmup",
     .type = OPT_INT,
     .fallback = "1",
     .min = 0,
     .max = 1e6,
     .hint = "N",
     .help = "requests of each client before those that count",
     .offset = AT(warmup)},
    {.name = "timeout",
     .type = OPT_DOUBLE,
     .fallback = "600",
     .min = 0.001,
     .max = 1e6,
     .hint = "S",
     .help = "seconds after which a request is given up",
     .offset = AT(timeout)},
    {.section = "Requests",
     .name = "input-tokens",
     .type = OPT_INT,
     .fallback = "128",
     .min = 1,
     .max = 1 << 20,
     .hint = "N",
     .help = "length of a prompt",
     .offset = AT(input_tokens)},
    {.name = "output-tokens",
     .type = OPT_INT,
     .fallback = "128",
     .min = 1,
     .max = 1 << 20,
     .hint = "N",
     .help = "max_tokens",
     .offset = AT(output_tokens)},
    {.name = "shared-prefix",
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens that all prompts begin with",
     .offset = AT(shared_prefix)},
    {.name = "prompt",
     .type = OPT_CHOICE,
     .fallback = "auto",
     .hint = "auto|ids|words",
     .help = "token ids, where the endpoint takes them, or words, of about a token each",
     .offset = AT(prompt)},
    {.name = "vocab",
     .type = OPT_INT,
     .fallback = "256",
     .min = 8,
     .max = 1 << 24,
     .hint = "N",
     .help = "ids are drawn from 3 to below this",
     .offset = AT(vocab)},
    {.name = "stream",
     .type = OPT_BOOL,
     .fallback = "true",
     .help = "ask for streams; without, nothing is known of single tokens",
     .offset = AT(stream)},
    {.name = "ignore-eos",
     .type = OPT_BOOL,
     .fallback = "true",
     .help = "ask for all the tokens, whatever they say; not in OpenAI's API",
     .offset = AT(ignore_eos)},
    {.name = "temperature",
     .type = OPT_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 2,
     .hint = "T",
     .help = "of sampling",
     .offset = AT(temperature)},
    {.name = "body",
     .type = OPT_TEXT,
     .hint = "MEMBERS",
     .help = "JSON members to add to each request, without braces: '\"top_k\":1'",
     .offset = AT(body)},
    {.name = "seed",
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 1LL << 52,
     .hint = "N",
     .help = "of prompts and arrivals; the same seed sends the same requests",
     .offset = AT(seed)},
    {.section = "Output",
     .name = "json",
     .type = OPT_BOOL,
     .help = "print a line of JSON for each stage",
     .offset = AT(json)},
};

const struct cmd_opt cmd_opt_bench_serve = {rows, sizeof rows / sizeof *rows,
                                            sizeof(struct serve_values)};

struct bench {
    const struct serve_values *v; /* borrowed */
    struct load_url url;
    struct load_ask ask;
    char *model; /* owned; NULL when it was named */
    int64_t clients[STAGES_MAX];
    int n_stage;
    uint64_t n; /* requests so far */
    int64_t n_good;
    struct load_tally *tally; /* owned: of the stage at hand */
};

/* "1,4,16" */
static int read_clients(struct bench *b, const char *text, struct err *e)
{
    if (!text)
        text = b->v->rate > 0 ? "1024" : "1";
    while (*text || b->n_stage == 0) {
        char one[24];
        size_t n = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, text);
        if (b->n_stage == STAGES_MAX)
            return err_set(e, ERR_TOO_LARGE, "--concurrency: at most %d numbers", STAGES_MAX);
        if (num_int(one, 1, LOAD_FLEET_CLIENTS_MAX, &b->clients[b->n_stage], e))
            return err_wrap(e, "--concurrency");
        b->n_stage++;
        text += n + (text[n] == ',');
    }
    return 0;
}

/* What stands in a header or in JSON as it is. */
static int check_text(const char *flag, const char *text, struct err *e)
{
    for (const char *s = text; s && *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127 || *s == '"' || *s == '\\')
            return err_set(e, ERR_BAD_INPUT,
                           "%s: quotes, backslashes and control bytes cannot be sent", flag);
    return 0;
}

static int prepare(struct bench *b, struct err *e)
{
    const struct serve_values *v = b->v;
    bool is_chat = strcmp(v->endpoint, "chat") == 0;
    if (check_text("--model", v->model, e) || check_text("--api-key", v->api_key, e))
        return -1;
    if (is_chat && strcmp(v->prompt, "ids") == 0)
        return err_set(e, ERR_BAD_INPUT, "--prompt ids: chat takes words");
    if (v->shared_prefix > v->input_tokens)
        return err_set(e, ERR_BAD_INPUT, "--shared-prefix: more than --input-tokens");
    if (read_clients(b, v->concurrency, e))
        return -1;
    if (load_url_parse(&b->url, v->url, e) || load_url_resolve(&b->url, e))
        return err_wrap(e, "--url");
    b->ask = (struct load_ask){.url = &b->url,
                               .model = v->model,
                               .api_key = v->api_key,
                               .body_more = v->body,
                               .is_chat = is_chat,
                               .is_stream = v->stream,
                               .ignore_eos = v->ignore_eos,
                               .sends_ids = !is_chat && strcmp(v->prompt, "words") != 0,
                               .input_tokens = v->input_tokens,
                               .output_tokens = v->output_tokens,
                               .shared_prefix = v->shared_prefix,
                               .vocab = v->vocab,
                               .temperature = v->temperature,
                               .seed = (uint64_t)v->seed};
    return 0;
}

/* Asks the server what the options leave open. */
static int probe(struct bench *b, struct err *e)
{
    int64_t timeout_us = (int64_t)(b->v->timeout * 1e6);
    if (!b->ask.model) {
        b->model = load_probe_model(&b->ask, timeout_us, e);
        if (!b->model || check_text("the model's name", b->model, e))
            return -1;
        b->ask.model = b->model;
    }
    return load_probe_prompt(&b->ask, strcmp(b->v->prompt, "auto") == 0, timeout_us, e);
}

static struct load_fleet_stage stage_of(const struct bench *b, int64_t clients)
{
    const struct serve_values *v = b->v;
    struct load_fleet_stage s = {.ask = &b->ask,
                                 .first_n = b->n,
                                 .clients = clients,
                                 .requests = v->requests,
                                 .rate = v->rate,
                                 .duration_us = (int64_t)(v->duration * 1e6),
                                 .timeout_us = (int64_t)(v->timeout * 1e6)};
    if (s.requests == 0 && s.duration_us == 0)
        s.requests = clients * REQUESTS_EACH;
    return s;
}

static int run(struct bench *b, struct load_fleet_stage *s, struct err *e)
{
    memset(b->tally, 0, sizeof *b->tally);
    if (!b->v->json && isatty(STDERR_FILENO)) {
        s->show = load_report_progress;
        s->ctx = s;
    }
    int rc = load_fleet_run(s, b->tally, e);
    b->n += (uint64_t)b->tally->n_begun;
    if (s->show)
        load_report_progress_end();
    return rc;
}

static int run_stage(struct bench *b, int64_t clients, struct err *e)
{
    struct load_fleet_stage warm = stage_of(b, clients);
    warm.requests = b->v->warmup * (warm.rate > 0 ? 1 : clients);
    warm.duration_us = 0;
    warm.rate = 0;
    if (warm.requests > 0 && run(b, &warm, e))
        return -1;
    struct load_fleet_stage s = stage_of(b, clients);
    int rc = run(b, &s, e);
    b->n_good += b->tally->n_end[LOAD_CONN_GOOD];
    if (b->v->json)
        return load_report_json(&s, b->tally, rc ? NULL : e) || rc ? -1 : 0;
    load_report_row(&s, b->tally);
    load_report_faults(b->tally);
    return rc;
}

static int run_all(struct bench *b, struct err *e)
{
    struct load_fleet_stage first = stage_of(b, b->clients[0]);
    if (!b->v->json)
        load_report_heading(&b->ask, &first);
    for (int i = 0; i < b->n_stage; i++)
        if (run_stage(b, b->clients[i], e))
            return -1;
    return b->n_good > 0 ? 0 : err_set(e, ERR_IO, "no request got a good answer");
}

int cmd_bench_serve(const struct opt *o)
{
    struct bench b = {.v = o->values, .tally = xcalloc(1, sizeof *b.tally)};
    struct err e = ERR_INIT;
    int rc = prepare(&b, &e);
    if (!rc)
        rc = probe(&b, &e);
    if (!rc)
        rc = run_all(&b, &e);
    free(b.tally);
    free(b.model);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
