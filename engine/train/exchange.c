/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums are in place. Neighbours in the flat array go as one.
 */
#include "engine/train/exchange.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/comm/fabric.h"

enum { NO_LAYER = -1, PATIENCE = 10 };

void exchange_init(struct exchange *x, struct train_tensors *on, const struct model *m,
                   struct eager *eager, struct stream *s)
{
    int32_t *of = xcalloc((size_t)m->n_param + 1, sizeof *of);
    *x = (struct exchange){
        .on = on, .eager = eager, .stream = s, .n_layer = m->cfg.n_layer, .err = ERR_INIT};
    for (int32_t i = 0; i < m->n_param; i++)
        of[i] = NO_LAYER;
    for (int64_t l = 0; l < m->cfg.n_layer; l++)
        for (enum slot k = SLOT_GLOBAL_COUNT; k < SLOT_COUNT; k++) {
            const struct param *p = model_layer(m, l, k);
            if (p)
                of[p->index] = (int32_t)l;
        }
    x->layer = xcalloc(on->list.n + 1, sizeof *x->layer);
    for (size_t i = 0; i < on->list.n; i++)
        x->layer[i] = of[on->list.at[i].of->index];
    free(of);
}

void exchange_release(struct exchange *x)
{
    free(x->layer);
    x->layer = NULL;
}

static struct comm *data_of(const struct exchange *x)
{
    return x->on->ranks.data;
}

static struct comm *tensor_of(const struct exchange *x)
{
    return x->on->model.size > 1 ? x->on->model.comm : NULL;
}

/* ---- sums of gradients ------------------------------------------------------------------------
 */

static int land(struct exchange *x, struct comm *c, int most, struct err *e)
{
    for (; x->n_flight > most; x->n_flight--)
        if (comm_finish(c, e))
            return -1;
    return 0;
}

/* Ranks exchange the host's memory, or a device's over a fabric; without one, what lies elsewhere
 * goes through the stream's room. */
static bool is_near(const struct exchange *x)
{
    return device_reads_host(x->on->device);
}

/* Runs a job whose `out`, of so many bytes, and the place of `in` within it are the device's. */
static int run_far(struct exchange *x, struct comm *c, struct comm_job *j, size_t bytes,
                   struct err *e)
{
    if (fabric_name(c))
        return fabric_run(c, x->stream, j, e);
    char *room = stream_room(x->stream, bytes, e), *out = j->out;
    size_t own = (size_t)((const char *)j->in - out);
    if (!room)
        return -1;
    stream_copy(x->stream, room, out, bytes, COPY_FROM_DEVICE);
    j->in = room + own;
    j->out = room;
    if (stream_sync(x->stream, e) || comm_run(c, j, e))
        return -1;
    stream_copy(x->stream, out, room, bytes, COPY_TO_DEVICE);
    return stream_sync(x->stream, e);
}

/* A sum in place, with the patience that others' rows ask for. A step's first comes before this
 * rank has waited for any. */
static struct comm_job sum_of(struct exchange *x, float *y, size_t n)
{
    struct comm_job j = {.kind = COMM_ALL_REDUCE, .in = y, .out = y, .n = n};
    if (x->own_tok > 0) {
        double ns = (double)(clock_ns() - x->begin_ns) / (double)x->own_tok;
        x->tok_ns = ns > x->tok_ns ? ns : x->tok_ns;
        x->own_tok = 0;
    }
    j.is_patient = x->tok_ns == 0;
    j.longer_ms = (int64_t)(PATIENCE * x->tok_ns * (double)x->most_tok / 1e6);
    return j;
}

static int start(struct exchange *x, struct comm *c, float *g, int64_t n, struct err *e)
{
    struct comm_job j = sum_of(x, g, (size_t)n);
    if (n == 0)
        return 0;
    if (!is_near(x))
        return run_far(x, c, &j, (size_t)n * sizeof *g, e);
    if (land(x, c, COMM_FLIGHT - 1, e) || comm_start(c, &j, e))
        return -1;
    x->n_flight++;
    return 0;
}

/* Which tensors: those of a layer, or those that a tensor group sums. */
struct pick {
    int layer;
    bool sums;
};

static bool is_picked(const struct exchange *x, size_t i, const struct pick *p)
{
    return p->sums ? x->on->list.at[i].sums_grad : x->layer[i] == p->layer;
}

/* Starts the sums of what is picked; sums end in the order of their starts. */
static int start_all(struct exchange *x, struct comm *c, const struct pick *p, struct err *e)
{
    float *run = NULL;
    int64_t n = 0;
    bool is_measured = x->own_tok > 0; /* how long the rows took is told by the end of their work */
    if ((is_measured || !fabric_name(c)) && stream_sync(x->stream, e))
        return -1;
    for (size_t i = 0; i < x->on->list.n; i++) {
        const struct train_tensor *t = &x->on->list.at[i];
        int64_t all = t->rows * t->cols;
        if (!is_picked(x, i, p))
            continue;
        if (!t->g) {
            if (eager_grad_begin(x->eager, t->param, e) || stream_sync(x->stream, e) ||
                start(x, c, t->param->grad, all, e))
                return -1;
            continue;
        }
        if (run && t->g >= run + n && t->g - run < n + TRAIN_ALIGN) {
            n = t->g - run + all; /* the gap is zeros */
            continue;
        }
        if (run && start(x, c, run, n, e))
            return -1;
        run = t->g;
        n = all;
    }
    return run ? start(x, c, run, n, e) : 0;
}

void exchange_begin(struct exchange *x, int64_t own_tok, int64_t most_tok)
{
    x->begin_ns = clock_ns();
    x->own_tok = own_tok;
    x->most_tok = most_tok;
    x->next = x->n_layer - 1;
    x->n_flight = 0;
    x->err = (struct err)ERR_INIT;
}

void exchange_block(void *ctx, int layer)
{
    struct exchange *x = ctx;
    if (!data_of(x) || x->err.code || layer != x->next)
        return;
    struct pick p = {.layer = layer};
    x->next--;
    start_all(x, data_of(x), &p, &x->err);
}

static int sum_data(struct exchange *x, struct err *e)
{
    struct comm *c = data_of(x);
    if (!c)
        return 0;
    while (x->next >= NO_LAYER && !x->err.code) {
        struct pick p = {.layer = (int)x->next--};
        if (start_all(x, c, &p, e))
            return -1;
    }
    return x->err.code ? err_set(e, x->err.code, "%s", x->err.msg) : land(x, c, 0, e);
}

int exchange_end(struct exchange *x, struct err *e)
{
    const struct pick p = {.sums = true};
    struct comm *c = tensor_of(x);
    if (sum_data(x, e))
        return -1;
    return c && (start_all(x, c, &p, e) || land(x, c, 0, e)) ? -1 : 0;
}

void exchange_drop(struct exchange *x, const struct err *why)
{
    struct comm *const group[] = {data_of(x), tensor_of(x)};
    for (int i = 0; i < 2 && x->n_flight; i++)
        if (group[i])
            comm_abort(group[i], why->msg);
    x->n_flight = 0;
}

/* ---- the rest ---------------------------------------------------------------------------------
 */

int exchange_rows(struct exchange *x, float *value, size_t n, struct err *e)
{
    struct comm_job j = sum_of(x, value, n);
    return data_of(x) ? comm_run(data_of(x), &j, e) : 0;
}

int exchange_sum(struct exchange *x, double *sum, struct err *e)
{
    double all[COMM_RANK_MAX];
    struct comm *c = tensor_of(x);
    if (!c)
        return 0;
    if (comm_all_gather(c, sum, all, sizeof *sum, e))
        return -1;
    *sum = 0;
    for (int r = 0; r < comm_size(c); r++)
        *sum += all[r];
    return 0;
}

int exchange_values(struct exchange *x, struct err *e)
{
    const struct train_tensors *on = x->on;
    struct comm_job j = {.kind = COMM_ALL_GATHER,
                         .in = on->p + on->ranks.data_rank * on->n_own,
                         .out = on->p,
                         .n = (size_t)on->n_own * sizeof *on->p};
    if (!data_of(x))
        return 0;
    if (!is_near(x))
        return run_far(x, data_of(x), &j, j.n * (size_t)train_n_data(&on->ranks), e);
    return stream_sync(x->stream, e) || comm_run(data_of(x), &j, e) ? -1 : 0;
}

int exchange_check(const struct exchange *x, struct err *e)
{
    struct comm *c = tensor_of(x);
    return c ? comm_check(c, e) : 0;
}
