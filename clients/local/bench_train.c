/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem bench train MODEL`: steps of training on random rows: tokens a second, the arithmetic
 * that is needed for them, and the memory they take. A peak measured elsewhere makes shares of it.
 *
 * Needed is: of each product the forward and the gradient of its input, of a trained matrix its own
 * gradient besides, of an adapter forward and both gradients, and the six products of causal
 * attention over the half of the square that is not masked. What is computed again for lack of
 * memory does not count.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "clients/local/load.h"
#include "clients/local/profile.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/train/trainer.h"

enum { STEPS_MAX = 1001 };

struct bench_train_values {
    struct local_options model;
    int64_t rows, length, rank, steps;
    bool checkpoint, json, profile;
};

#define AT(field) offsetof(struct bench_train_values, field)

static const struct opt_row rows[] = {
#include "clients/local/load_rows.inc"
    LOCAL_WEIGHTS_ROW,
    {.section = "Bench",
     .name = "rows",
     .type = OPT_INT,
     .fallback = "1",
     .min = 1,
     .max = 1024,
     .hint = "N",
     .help = "rows of a step",
     .offset = AT(rows)},
    {.name = "length",
     .type = OPT_INT,
     .fallback = "512",
     .min = 2,
     .max = 1 << 20,
     .hint = "N",
     .help = "tokens of a row",
     .offset = AT(length)},
    {.name = "rank",
     .type = OPT_INT,
     .fallback = "16",
     .min = 0,
     .max = TRAIN_RANK_MAX,
     .hint = "R",
     .help = "of an adapter on every product; 0: all parameters are trained",
     .offset = AT(rank)},
    {.name = "steps",
     .type = OPT_INT,
     .fallback = "5",
     .min = 1,
     .max = STEPS_MAX,
     .hint = "N",
     .help = "steps behind the warm-up",
     .offset = AT(steps)},
    {.name = "checkpoint",
     .type = OPT_BOOL,
     .help = "keep a block's input alone, and run its forward again",
     .offset = AT(checkpoint)},
    {.name = "profile",
     .type = OPT_BOOL,
     .help = "print the time of each kernel",
     .offset = AT(profile)},
    {.name = "json", .type = OPT_BOOL, .help = "print a line of JSON", .offset = AT(json)},
};

const struct cmd_opt cmd_opt_bench_train = {rows, sizeof rows / sizeof *rows,
                                            sizeof(struct bench_train_values)};

/* Floating-point operations that a token of a row needs. */
static double needed(const struct model *m, const struct bench_train_values *v)
{
    const struct config *c = &m->cfg;
    const struct param *lm_head = model_lm_head(m);
    double products = (double)lm_head->n * (double)lm_head->k, trained, adapters = 0;
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        if (p->lora < 0)
            continue;
        if (p->n_half) { /* a token goes through some experts, which have no adapters */
            products += (double)c->n_top * (double)p->lora_n * (double)p->k;
            continue;
        }
        products += (double)p->n * (double)p->k;
        adapters += (double)v->rank * (double)(p->n + p->k);
    }
    trained = v->rank ? 0 : products;
    double attention =
        6.0 * (double)v->length * (double)(c->n_head * c->d_head) * (double)c->n_layer;
    return 2 * (2 * products + trained + 3 * adapters) + attention;
}

struct text {
    int32_t *id, *label;   /* owned: [rows, length] */
    struct train_row *row; /* owned */
};

static int text_init(struct text *t, const struct model *m, const struct bench_train_values *v,
                     struct err *e)
{
    int64_t n = v->rows * v->length;
    t->row = xcalloc((size_t)v->rows, sizeof *t->row);
    t->id = try_alloc((size_t)n, sizeof *t->id, "rows", e);
    t->label = try_alloc((size_t)n, sizeof *t->label, "rows", e);
    if (!t->id || !t->label)
        return -1;
    for (int64_t i = 0; i < n; i++)
        t->id[i] = (int32_t)rng_below(1, 0, (uint64_t)i, (uint64_t)m->cfg.n_vocab);
    for (int64_t i = 0; i < n; i++)
        t->label[i] = (i + 1) % v->length ? t->id[i + 1] : -1;
    for (int64_t r = 0; r < v->rows; r++)
        t->row[r] = (struct train_row){.id = t->id + r * v->length,
                                       .label = t->label + r * v->length,
                                       .n = v->length,
                                       .key = (uint64_t)r};
    return 0;
}

static void text_release(struct text *t)
{
    mem_free(t->id);
    mem_free(t->label);
    free(t->row);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void show(const struct bench_train_values *v, const struct model *m, double *s)
{
    double tokens = (double)(v->rows * v->length), flops = needed(m, v) * tokens;
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    qsort(s, (size_t)v->steps, sizeof *s, by_value);
    double mid = s[v->steps / 2];
    if (v->json)
        printf("{\"rows\":%" PRId64 ",\"length\":%" PRId64 ",\"rank\":%" PRId64
               ",\"step_s\":%.4f,\"best_s\":%.4f,\"tokens_per_s\":%.1f,\"gflops\":%.1f,"
               "\"peak_mib\":%ld}\n",
               v->rows, v->length, v->rank, mid, s[0], tokens / mid, flops / mid / 1e9,
               use.ru_maxrss / 1024);
    else
        printf("%s  %" PRId64 " x %" PRId64 "  %8.1f tokens/s  (best step %.1f)  %.1f GFLOP/s "
               "needed  %ld MiB at most\n",
               v->rank ? "adapter" : "full   ", v->rows, v->length, tokens / mid, tokens / s[0],
               flops / mid / 1e9, use.ru_maxrss / 1024);
}

static int run(struct resident *l, const struct bench_train_values *v, struct err *e)
{
    struct train_options o;
    struct train_result r;
    struct profile profile;
    struct text text = {0};
    double s[STEPS_MAX];
    int rc = -1;
    train_options_default(&o);
    o.lora.rank = v->rank;
    o.schedule = TRAIN_CONSTANT;
    o.cap_tok = v->rows * v->length;
    o.checkpoints_blocks = v->checkpoint;
    struct trainer *t = trainer_new(l->model, &o, l->stream, e);
    if (!t || text_init(&text, l->model, v, e))
        goto done;
    profile_clear(&profile);
    for (int64_t i = -1; i < v->steps; i++) {
        int64_t begin = clock_ns();
        if (i == 0 && v->profile)
            profile_watch(&profile, l->stream);
        if (trainer_step(t, text.row, v->rows, &r, e))
            goto done;
        if (i >= 0)
            s[i] = (double)(clock_ns() - begin) / 1e9;
    }
    show(v, l->model, s);
    if (v->profile)
        profile_show(&profile, "training", stderr);
    rc = 0;
done:
    text_release(&text);
    trainer_free(t);
    return rc;
}

int cmd_bench_train(const struct opt *o)
{
    struct resident l = {0};
    struct err e = ERR_INIT;
    const struct bench_train_values *v = o->values;
    int rc = local_load(&l, o->arg[0], &v->model, false, &e);
    if (!rc)
        rc = run(&l, v, &e);
    resident_release(&l);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
