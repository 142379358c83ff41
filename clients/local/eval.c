/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem eval MODEL FILE`: how well a model answers the rows of a file, and adapters of it beside
 * the model alone. The rows are read whole before any is asked.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/json.h"
#include "clients/eval/report.h"
#include "clients/local/load.h"
#include "clients/remote/term.h"
#include "engine/base/aside.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/train/plain.h"

#define TUNED "tuned" /* what the engine calls each of them, in turn */

enum { OUT_BYTES_MAX = 64 << 20, SHOW_EVERY_US = 200000 };

struct eval_values {
    struct local_options model;
    struct opt_list adapter;
    const char *stop, *rows;
    int64_t max_tokens, window, limit;
    bool ignore_case, json;
};

#define AT(field) offsetof(struct eval_values, field)

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    {.section = "Judging",
     .name = "adapter",
     .type = OPT_LIST,
     .hint = "[NAME=]DIR",
     .help = "a tuned model, to stand beside the model without it; up to 3 times",
     .offset = AT(adapter)},
    {.name = "max-tokens",
     .letter = 'n',
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 1 << 30,
     .hint = "N",
     .help = "of an answer; 0: as many as tell whether it is the right one",
     .offset = AT(max_tokens)},
    {.name = "stop",
     .type = OPT_TEXT,
     .hint = "TEXT",
     .help = "ends an answer, besides the tokens that the model ends it with",
     .offset = AT(stop)},
    {.name = "ignore-case",
     .type = OPT_BOOL,
     .help = "an answer may differ from the right one in the case of A to Z",
     .offset = AT(ignore_case)},
    {.name = "window",
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 1 << 30,
     .hint = "N",
     .help = "tokens of a text that are counted at once; 0: all but one of the context",
     .offset = AT(window)},
    {.name = "limit",
     .type = OPT_INT,
     .fallback = "0",
     .min = 0,
     .max = 1e12,
     .hint = "N",
     .help = "rows to read of the file; 0: all",
     .offset = AT(limit)},
    {.section = "Output",
     .name = "rows",
     .type = OPT_TEXT,
     .hint = "FILE",
     .help = "write what became of each row, as lines of JSON",
     .offset = AT(rows)},
    {.name = "json", .type = OPT_BOOL, .help = "one JSON object", .offset = AT(json)},
};

const struct cmd_opt cmd_opt_eval = {rows, sizeof rows / sizeof *rows, sizeof(struct eval_values)};

struct evaluation {
    const struct eval_values *v;
    const char *file;
    struct engine *engine;
    struct eval_rows rows;
    struct eval_result result[EVAL_MODELS_MAX];
    char *name[EVAL_MODELS_MAX]; /* owned */
    size_t n;
    int64_t shown_us;
};

static void show(void *ctx, size_t done, size_t all)
{
    struct evaluation *v = ctx;
    int64_t now = clock_us();
    if (now - v->shown_us < SHOW_EVERY_US && done < all)
        return;
    v->shown_us = now;
    fprintf(stderr, done < all ? "\r\033[K%s: %zu of %zu" : "\r\033[K", v->name[v->n - 1], done,
            all);
}

/* "NAME=DIR", or a folder that is called as its last part. */
static const char *name_of(const char *word, char **name)
{
    const char *sign = strchr(word, '='), *slash = strchr(word, '/');
    if (sign && sign > word && (!slash || sign < slash)) {
        *name = xstrndup(word, (size_t)(sign - word));
        return sign + 1;
    }
    size_t n = strlen(word);
    while (n > 1 && word[n - 1] == '/')
        n--;
    size_t from = n;
    while (from > 0 && word[from - 1] != '/')
        from--;
    *name = xstrndup(word + from, n - from);
    return word;
}

/* The base, or what `word` names, asked all rows. */
static int judge(struct evaluation *v, const char *word, const struct eval_compare *compare,
                 struct err *e)
{
    struct eval_result *t = &v->result[v->n];
    struct adapter *adapter = NULL;
    const char *dir = NULL;
    if (word)
        dir = name_of(word, &v->name[v->n]);
    else
        v->name[v->n] = xstrdup("base");
    t->name = v->name[v->n++];
    if (dir && engine_adapter_load(v->engine, TUNED, dir, e))
        return -1;
    if (dir)
        adapter = engine_adapter_get(v->engine, TUNED);
    const struct eval_ask ask = {.engine = v->engine,
                                 .adapter = adapter,
                                 .rows = &v->rows,
                                 .stop = v->v->stop,
                                 .max_new = v->v->max_tokens,
                                 .progress = isatty(STDERR_FILENO) ? show : NULL,
                                 .ctx = v};
    t->verdict = try_alloc(v->rows.row.n, sizeof *t->verdict, "results", e);
    int rc = t->verdict ? eval_ask(&ask, &t->said, e) : -1;
    adapter_unref(adapter);
    return rc ? -1 : eval_score(compare, &v->rows, &t->said, t->verdict, &t->score, e);
}

static int write_rows(const struct eval_report *r, const char *path, struct err *e)
{
    struct aside file;
    struct buf line;
    buf_init(&line, OUT_BYTES_MAX);
    int rc = aside_init(&file, path, e);
    for (size_t i = 0; i < r->rows->row.n && !rc; i++) {
        buf_clear(&line);
        rc = eval_report_row(r, i, &line, e) || buf_check(&line, "a row's result", e) ||
                     aside_write(&file, line.data, line.len, e)
                 ? -1
                 : 0;
    }
    if (!rc)
        rc = aside_commit(&file, e);
    aside_release(&file);
    buf_release(&line);
    return rc;
}

static int report(const struct evaluation *v, const struct eval_compare *compare, struct err *e)
{
    const struct engine_info *info = engine_info(v->engine);
    const struct eval_report r = {.model = info->name,
                                  .weights = info->weights,
                                  .file = v->file,
                                  .rows = &v->rows,
                                  .result = v->result,
                                  .n = v->n,
                                  .compare = *compare};
    struct buf out;
    struct term term;
    if (v->v->rows && write_rows(&r, v->v->rows, e))
        return -1;
    buf_init(&out, OUT_BYTES_MAX);
    term_init(&term, stdout);
    if (v->v->json)
        eval_report_json(&r, &out);
    else
        eval_report_table(&r, term.is_tty ? term_width(&term) : INT_MAX, &out);
    int rc = buf_check(&out, "the report", e);
    if (!rc)
        fwrite(out.data, 1, out.len, stdout);
    buf_release(&out);
    return rc;
}

static int check(const struct evaluation *v, struct err *e)
{
    if (v->v->adapter.n >= EVAL_MODELS_MAX)
        return err_set(e, ERR_BAD_INPUT, "--adapter: at most %d may stand beside the model",
                       EVAL_MODELS_MAX - 1);
    return engine_info(v->engine)->generates
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "an encoder gives vectors, not text");
}

static int run(struct evaluation *v, const char *model, struct err *e)
{
    const struct engine_options with = {
        .train_bytes = -1, .max_adapters = v->v->adapter.n > 0, .max_lora_rank = TRAIN_RANK_MAX};
    v->engine = local_engine(model, &v->v->model, &with, e);
    if (!v->engine || check(v, e))
        return -1;
    const struct eval_rows_options o = {
        .engine = v->engine, .window = v->v->window, .limit = v->v->limit};
    const struct eval_compare compare = {.tokenizer = engine_tokenizer(v->engine),
                                         .ignores_case = v->v->ignore_case};
    if (eval_rows_read(&v->rows, v->file, &o, e) || engine_start(v->engine, e) ||
        judge(v, NULL, &compare, e))
        return -1;
    for (size_t i = 0; i < v->v->adapter.n; i++)
        if (judge(v, v->v->adapter.at[i], &compare, e))
            return -1;
    return report(v, &compare, e);
}

int cmd_eval(const struct opt *o)
{
    struct evaluation v = {.v = o->values, .file = o->arg[1]};
    struct err e = ERR_INIT;
    api_json_init();
    int rc = run(&v, o->arg[0], &e);
    engine_free(v.engine);
    for (size_t i = 0; i < v.n; i++) {
        eval_said_release(&v.result[i].said);
        mem_free(v.result[i].verdict);
        free(v.name[i]);
    }
    eval_rows_release(&v.rows);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
