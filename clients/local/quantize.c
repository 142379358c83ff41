/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem quantize MODEL OUT`: a model with its layers' matrices in few bits, as a directory that
 * this program, transformers and vLLM load, and a report of what that changed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/local/load.h"
#include "clients/local/quantize_rows.h"
#include "engine/base/mem.h"
#include "engine/quant/compare.h"
#include "engine/quant/quantize.h"

enum { WORST = 5, MEASURED_TOK = 8192 };

struct quantize_values {
    struct local_options model;
    const char *to, *group, *calibrate, *measure;
    int64_t length, tokens;
    bool report;
};

#define AT(field) offsetof(struct quantize_values, field)

static const struct opt_row rows[] = {
    {.section = "What it becomes",
     .name = "to",
     .type = OPT_CHOICE,
     .fallback = "int4",
     .hint = quant_target_choices,
     .help = "numbers of the layers' matrices",
     .offset = AT(to)},
    {.name = "group",
     .type = OPT_CHOICE,
     .fallback = "32",
     .hint = "32|128",
     .help = "inputs that share a scale; of fp8 all of a row do",
     .offset = AT(group)},
    {.section = "Calibration",
     .name = "calibrate",
     .type = OPT_TEXT,
     .hint = "FILE",
     .help = "round so that the outputs on this text change least: a plain text, or .jsonl rows as "
             "training takes them; none: each number to the nearest",
     .offset = AT(calibrate)},
    {.name = "tokens",
     .type = OPT_INT,
     .fallback = "32768",
     .min = 2,
     .max = 1 << 24,
     .hint = "N",
     .help = "of that text, at most",
     .offset = AT(tokens)},
    {.name = "length",
     .type = OPT_INT,
     .fallback = "512",
     .min = 2,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens of a row of text, at most",
     .offset = AT(length)},
    {.section = "Report",
     .name = "report",
     .type = OPT_BOOL,
     .fallback = "true",
     .help = "load the result beside the original and compare them",
     .offset = AT(report)},
    {.name = "measure",
     .type = OPT_TEXT,
     .hint = "FILE",
     .help =
         "text to compare on; none: every eighth row of the calibration, which it does not see, "
         "or a short text of the program's own",
     .offset = AT(measure)},
    {.section = "Machine",
     .name = "threads",
     .type = OPT_INT,
     .fallback = "0",
     .max = 1024,
     .hint = "N",
     .help = "compute threads; 0: one for each CPU",
     .offset = AT(model.load.threads)},
};

const struct cmd_opt cmd_opt_quantize = {rows, sizeof rows / sizeof *rows,
                                         sizeof(struct quantize_values)};

struct quantizing {
    const struct quantize_values *v;
    const char *from, *to;
    struct resident on; /* the original; without --calibrate and the report: the threads alone */
    struct quant_plan plan;
    struct quant_texts calibration, measured;
    bool holds_out; /* what is measured on is of the calibration's file */
    uint64_t bytes_from, bytes_to;
};

/* ---- texts --------------------------------------------------------------------------------- */

static int64_t row_length(const struct quantizing *q)
{
    int64_t ctx = q->on.model->ctx;
    return q->v->length < ctx ? q->v->length : ctx;
}

static int read_texts(struct quantizing *q, struct err *e)
{
    const struct quantize_values *v = q->v;
    if (!q->on.model)
        return 0;
    if (!q->on.tokenizer)
        return err_set(e, ERR_BAD_INPUT, "%s: it has no tokenizer.json: give --report off",
                       q->from);
    if (v->calibrate &&
        quantize_rows_read(&q->calibration, v->calibrate, &q->on, row_length(q), v->tokens, e))
        return -1;
    if (!v->report)
        return 0;
    if (v->calibrate && !v->measure && quant_texts_hold_out(&q->calibration, &q->measured, e))
        return -1;
    q->holds_out = q->measured.end.n > 0;
    return q->holds_out ? 0
                        : quantize_rows_read(&q->measured, v->measure, &q->on, row_length(q),
                                             MEASURED_TOK, e);
}

/* ---- report -------------------------------------------------------------------------------- */

static double relative(const struct quant_entry *t)
{
    return t->of > 0 ? sqrt(t->error / t->of) : 0;
}

static int by_error(const void *a, const void *b)
{
    const struct quant_entry *x = *(const struct quant_entry *const *)a,
                             *y = *(const struct quant_entry *const *)b;
    if (x->is_seen != y->is_seen)
        return x->is_seen ? -1 : 1;
    return relative(x) > relative(y) ? -1 : relative(x) < relative(y);
}

static void say_worst(const struct quant_plan *p)
{
    const struct quant_entry **t = xcalloc(p->entry.n, sizeof *t);
    for (size_t i = 0; i < p->entry.n; i++)
        t[i] = &p->entry.at[i];
    qsort(t, p->entry.n, sizeof *t, by_error);
    printf("largest errors of %s:\n", t[0]->is_seen ? "outputs" : "weights");
    for (size_t i = 0; i < p->entry.n && i < WORST; i++)
        printf("  %5.2f%%  %s\n", 100 * relative(t[i]), t[i]->from->t->name);
    free(t);
}

static void say_sizes(const struct quantizing *q)
{
    printf("%s: %.1f MB; was %.1f MB\n", q->to, (double)q->bytes_to / 1e6,
           (double)q->bytes_from / 1e6);
    if (q->plan.kept.n)
        printf("%zu matrices stay as they are, whose inputs are no whole groups of %lld: %s%s\n",
               q->plan.kept.n, (long long)quant_unit(&q->plan), q->plan.kept.at[0],
               q->plan.kept.n > 1 ? ", ..." : "");
}

static void say_compared(const struct quantizing *q, const struct quant_compared *c)
{
    printf("on %zu rows, %lld predicted tokens, %s\n", q->measured.end.n, (long long)c->n_tok,
           q->v->measure  ? q->v->measure
           : q->holds_out ? "of the calibration's file, held out"
                          : "of the built-in text");
    printf("  perplexity   %.4f, was %.4f\n", exp(c->nll[1]), exp(c->nll[0]));
    printf("  KL a token   %.5f, at most %.4f\n", c->kl, c->kl_worst);
    printf("  same choice  %.2f%%\n", 100 * c->agreed);
}

/* What was written, loaded as anybody would, beside the original. */
static int compare(const struct quantizing *q, struct err *e)
{
    struct model_dir dir;
    struct model_options mo = local_model_options(&q->v->model);
    struct quant_compared c;
    mo.pool = q->on.pool;
    if (model_dir_init(&dir, q->to, e))
        return -1;
    struct model *m = model_load(&dir, &mo, q->on.device, e);
    int rc = m ? quant_compare(q->on.model, m, &q->measured, q->on.stream, &c, e) : -1;
    if (!rc)
        say_compared(q, &c);
    model_free(m);
    model_dir_release(&dir);
    return rc;
}

/* ---- the command --------------------------------------------------------------------------- */

static void show(void *ctx, size_t done, size_t all)
{
    (void)ctx;
    fprintf(stderr, done < all ? "\r\033[Kquantising matrix %zu of %zu" : "\r\033[K", done + 1,
            all);
}

static int load(struct quantizing *q, struct err *e)
{
    struct local_options o = q->v->model;
    o.load.device = "cpu"; /* what runs is read by the host */
    if (q->v->calibrate || q->v->report)
        return local_load(&q->on, q->from, &o, true, e);
    q->on.pool = pool_new((int)o.load.threads, true, e);
    return q->on.pool ? 0 : -1;
}

static int run(struct quantizing *q, struct err *e)
{
    const struct quantize_values *v = q->v;
    if (access(q->to, F_OK) == 0)
        return err_set(e, ERR_EXISTS, "%s: is there already", q->to);
    struct model_dir from;
    if (model_dir_init(&from, q->from, e))
        return -1;
    int rc =
        quant_plan_init(&q->plan, &from, quant_target_find(v->to), strtoll(v->group, NULL, 10), e);
    q->bytes_from = weights_bytes(from.weights);
    if (!rc)
        rc = load(q, e) || read_texts(q, e) ? -1 : 0;
    struct quant_options o = {.pool = q->on.pool,
                              .model = q->on.model,
                              .stream = q->on.stream,
                              .texts = v->calibrate ? &q->calibration : NULL,
                              .progress = isatty(STDERR_FILENO) ? show : NULL};
    if (!rc)
        rc = quantize(&q->plan, &from, q->to, &o, &q->bytes_to, e);
    if (!rc) {
        say_sizes(q);
        say_worst(&q->plan);
        rc = v->report ? compare(q, e) : 0;
    }
    quant_plan_release(&q->plan);
    model_dir_release(&from);
    return rc;
}

int cmd_quantize(const struct opt *o)
{
    struct quantizing q = {.v = o->values, .from = o->arg[0], .to = o->arg[1]};
    struct err e = ERR_INIT;
    int rc = run(&q, &e);
    quant_texts_release(&q.calibration);
    quant_texts_release(&q.measured);
    resident_release(&q.on);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
