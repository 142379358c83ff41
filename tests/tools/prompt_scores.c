/* SPDX-License-Identifier: Apache-2.0
 *
 * What models make of a text, many of them one after the other, in f32 and on one thread, or by so
 * many ranks.
 *
 *     prompt_scores [RANKS] <lines >answers
 *
 * A line is a directory and the text's tokens: "DIR 5 7 9". The answer is "ok" and the
 * log-probability of each token behind the first; of an encoder the text's vector, of a classifier
 * the bare number of each label; or "no" and why the model is refused.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/num.h"
#include "engine/graph/passes.h"
#include "engine/run/runner.h"
#include "engine/serve/resident.h"

enum { TEXT_MAX = 512 };

struct text {
    int32_t id[TEXT_MAX];
    int64_t n;
};

static double score_of(const float *row, int64_t n, int32_t id)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = row[i] > most ? row[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)row[i] - most);
    return (double)row[id] - most - log(sum);
}

static void print_scores(const struct op_view *out, const struct text *t)
{
    for (int64_t i = 0; i + 1 < t->n; i++)
        printf(" %.9g", score_of(out->p + i * out->ld, out->shape.cols, t->id[i + 1]));
}

/* A text's vector stands in one row: the only one of a mean, the last token's, or the first's. */
static void print_vector(const struct op_view *out, const struct text *t, const struct config *c)
{
    const float *row = out->p + (c->pool == POOL_LAST ? t->n - 1 : 0) * out->ld;
    for (int64_t i = 0; i < out->shape.cols; i++)
        printf(" %.9g", row[i]);
}

/* The device is a CPU: its rows are read where they are. */
static int say(const struct resident *r, const struct text *t, struct err *e)
{
    struct runner_options o = {
        .cap = {[DIM_TOK] = t->n, [DIM_OUT] = t->n, [DIM_SEQ] = 1, [DIM_GROUP] = 1},
        .n_cell = (t->n + K_CELL - 1) / K_CELL,
        .n_feed = t->n,
        .passes = PASS_ALL,
        .output = r->model->cfg.is_encoder ? MODEL_EMBED : MODEL_LOGITS};
    struct op_view out;
    struct runner *runner = runner_new(r->model, &o, r->stream, e);
    int rc = runner ? runner_feed(runner, t->id, t->n, 0, t->n, &out, e) : -1;
    if (!rc)
        printf("ok");
    if (!rc && r->model->cfg.is_encoder)
        print_vector(&out, t, &r->model->cfg);
    else if (!rc)
        print_scores(&out, t);
    runner_free(runner);
    return rc;
}

static void answer(const char *dir, const struct text *t, int tp)
{
    struct resident r = {0};
    struct resident_options o = {.dir = dir,
                                 .tp = tp,
                                 .load = {.quantize = "f32",
                                          .kv_type = "f32",
                                          .compute = "exact",
                                          .threads = 1,
                                          .device = "cpu",
                                          .kernels = "auto"}};
    struct err e = ERR_INIT;
    if (resident_init(&r, &o, &e) || say(&r, t, &e))
        printf("no %s", e.msg);
    printf("\n");
    fflush(stdout);
    resident_release(&r);
}

static int64_t number(const char *text)
{
    struct err e = ERR_INIT;
    int64_t v;
    if (num_int(text, 0, INT32_MAX, &v, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        exit(2);
    }
    return v;
}

/* The next word of a line; NULL: there is none. */
static char *word(char **at)
{
    char *begin = *at + strspn(*at, " \n");
    if (!*begin)
        return NULL;
    char *end = begin + strcspn(begin, " \n");
    *at = *end ? end + 1 : end;
    *end = 0;
    return begin;
}

int main(int argc, char **argv)
{
    static char line[1 << 16];
    int tp = argc > 1 ? (int)number(argv[1]) : 1;
    while (fgets(line, sizeof line, stdin)) {
        struct text t = {.n = 0};
        char *at = line, *dir = word(&at);
        for (char *w; dir && t.n < TEXT_MAX && (w = word(&at));)
            t.id[t.n++] = (int32_t)number(w);
        if (t.n)
            answer(dir, &t, tp);
    }
    return 0;
}
