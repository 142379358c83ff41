/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums are in place. Neighbours in the flat array go as one.
 */
#include "engine/train/exchange.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/comm/fabric.h"

enum { NO_LAYER = -1, PATIENCE = 10, STAGE_BYTES = 4 << 20 };

static struct comm *data_of(const struct exchange *x)
{
    return x->on->ranks.data;
}

static struct comm *tensor_of(const struct exchange *x)
{
    return x->on->model.size > 1 ? x->on->model.comm : NULL;
}

/* Ranks exchange the host's memory, or a device's over a fabric; without one, what lies elsewhere
 * goes through the stream's room. */
static bool is_near(const struct exchange *x)
{
    return device_reads_host(x->on->device);
}

/* The memory of the values that data rank d updates. */
struct span {
    char *at; /* borrowed */
    size_t bytes;
};

static struct span span_of(const struct exchange *x, int d)
{
    char *at = train_tensors_value_at(x->on, x->cut[d]);
    char *end = train_tensors_value_at(x->on, x->cut[d + 1]);
    return (struct span){at, (size_t)(end - at)};
}

/* Bytes of the longest. */
static size_t longest_span(const struct exchange *x)
{
    size_t most = 0;
    for (int d = 0; d < train_n_data(&x->on->ranks); d++) {
        size_t n = span_of(x, d).bytes;
        most = n > most ? n : most;
    }
    return most;
}

/* Where the runs of a data group's ranks begin, and room in which pieces of them meet. */
static int stage_init(struct exchange *x, struct err *e)
{
    const struct train_tensors *on = x->on;
    int n = train_n_data(&on->ranks);
    if (n == 1)
        return 0;
    int64_t *at = xcalloc(on->list.n + 1, sizeof *at);
    int64_t n_elem = train_tensors_place(on, on->model.rank, at);
    x->cut = xcalloc((size_t)n + 1, sizeof *x->cut);
    for (int d = 0; d <= n; d++)
        x->cut[d] = train_tensors_cut(on, on->model.rank, at, n_elem, d);
    free(at);
    x->stage_bytes = longest_span(x);
    if (x->stage_bytes > STAGE_BYTES)
        x->stage_bytes = STAGE_BYTES;
    x->stage = device_alloc(on->device, (size_t)n * x->stage_bytes, "new values of all ranks", e);
    return x->stage ? 0 : -1;
}

static int make_beside(struct exchange *x, struct err *e)
{
    if (!data_of(x) || tensor_of(x) || is_near(x) || !fabric_name(data_of(x)))
        return 0;
    x->beside = stream_new(x->on->device, e);
    x->made = x->beside ? event_new(x->on->device, e) : NULL;
    return x->made ? 0 : -1;
}

int exchange_init(struct exchange *x, struct train_tensors *on, const struct model *m,
                  struct eager *eager, struct stream *s, struct err *e)
{
    int32_t *of = xcalloc((size_t)m->n_param + 1, sizeof *of);
    *x = (struct exchange){.on = on, .eager = eager, .stream = s, .n_layer = m->cfg.n_layer};
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
    return stage_init(x, e) || make_beside(x, e) ? -1 : 0;
}

void exchange_release(struct exchange *x)
{
    if (x->stage)
        device_mem_free(x->on->device, x->stage);
    event_free(x->made);
    stream_free(x->beside);
    free(x->layer);
    free(x->cut);
    x->made = NULL;
    x->beside = NULL;
    x->stage = NULL;
    x->layer = NULL;
    x->cut = NULL;
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

/* `beside` goes on behind what stands in `stream` now. */
static struct stream *beside_now(struct exchange *x)
{
    event_record(x->made, x->stream);
    event_wait(x->made, x->beside);
    return x->beside;
}

/* Runs a job whose `out`, of so many bytes, and the place of `in` within it are the device's. */
static int run_far(struct exchange *x, struct comm *c, struct comm_job *j, size_t bytes,
                   struct err *e)
{
    if (x->beside) /* a group keeps to one stream */
        return fabric_run(c, beside_now(x), j, e) || stream_sync(x->beside, e) ? -1 : 0;
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

/* A sum in place, with the patience that others' rows ask for, the same at all ranks. A step's
 * first comes before this rank has waited for any. */
static struct comm_job sum_of(struct exchange *x, float *y, size_t n)
{
    struct comm_job j = {.kind = COMM_ALL_REDUCE, .in = y, .out = y, .n = n};
    if (x->own_tok > 0) {
        double ns = (double)(clock_ns() - x->begin_ns) / (double)x->own_tok;
        x->tok_ns = ns > x->tok_ns ? ns : x->tok_ns;
        x->own_tok = 0;
    }
    j.is_patient = x->all_ns == 0;
    j.longer_ms = (int64_t)(PATIENCE * x->all_ns * (double)x->most_tok / 1e6);
    return j;
}

static int start(struct exchange *x, struct comm *c, float *g, int64_t n, struct err *e)
{
    struct comm_job j = sum_of(x, g, (size_t)n);
    if (n == 0)
        return 0;
    if (!is_near(x))
        return x->beside ? fabric_run(c, x->beside, &j, e)
                         : run_far(x, c, &j, (size_t)n * sizeof *g, e);
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

/* What stands in the stream now may be summed: the host waits for it where the host sums. */
static int made(struct exchange *x, struct comm *c, struct err *e)
{
    if (x->beside) {
        beside_now(x);
        x->is_out = true;
    }
    return fabric_name(c) ? 0 : stream_sync(x->stream, e);
}

/* Starts the sums of what is picked; sums end in the order of their starts. */
static int start_all(struct exchange *x, struct comm *c, const struct pick *p, struct err *e)
{
    float *run = NULL;
    int64_t n = 0;
    bool is_measured = x->own_tok > 0; /* how long the rows took is told by the end of their work */
    if ((is_measured && stream_sync(x->stream, e)) || made(x, c, e))
        return -1;
    for (size_t i = 0; i < x->on->list.n; i++) {
        const struct train_tensor *t = &x->on->list.at[i];
        int64_t all = t->rows * t->cols;
        if (!is_picked(x, i, p))
            continue;
        if (!t->g) {
            if (eager_grad_begin(x->eager, t->param, e) || made(x, c, e) ||
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
}

int exchange_block(void *ctx, int layer, struct err *e)
{
    struct exchange *x = ctx;
    if (!data_of(x) || layer != x->next)
        return 0;
    struct pick p = {.layer = layer};
    x->next--;
    return start_all(x, data_of(x), &p, e);
}

static int sum_data(struct exchange *x, struct err *e)
{
    struct comm *c = data_of(x);
    if (!c)
        return 0;
    while (x->next >= NO_LAYER) {
        struct pick p = {.layer = (int)x->next--};
        if (start_all(x, c, &p, e))
            return -1;
    }
    if (x->beside ? stream_sync(x->beside, e) : land(x, c, 0, e))
        return -1;
    x->is_out = false;
    return 0;
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
    struct err unused = ERR_INIT;
    for (int i = 0; i < 2 && (x->n_flight || x->is_out); i++)
        if (group[i])
            comm_abort(group[i], why->msg);
    if (x->is_out)
        stream_sync(x->beside, &unused);
    x->n_flight = 0;
    x->is_out = false;
}

/* ---- the rest ---------------------------------------------------------------------------------
 */

/* A rank that had no rows yet cannot tell how long they take. */
static int share_pace(struct exchange *x, struct err *e)
{
    double of[COMM_RANK_MAX];
    struct comm *c = data_of(x);
    if (comm_all_gather(c, &x->tok_ns, of, sizeof x->tok_ns, e))
        return -1;
    for (int r = 0; r < comm_size(c); r++)
        x->all_ns = of[r] > x->all_ns ? of[r] : x->all_ns;
    return 0;
}

int exchange_rows(struct exchange *x, float *value, size_t n, struct err *e)
{
    struct comm_job j = sum_of(x, value, n);
    if (!data_of(x))
        return 0;
    return comm_run(data_of(x), &j, e) || share_pace(x, e) ? -1 : 0;
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

/* Bytes of a span from `lo` on, `n` at most. */
static size_t piece_of(const struct span *s, size_t lo, size_t n)
{
    size_t left = s->bytes > lo ? s->bytes - lo : 0;
    return left < n ? left : n;
}

/* A piece of each rank's values: from here to the stage, to all, and to where they belong. */
static int gather_piece(struct exchange *x, size_t lo, struct err *e)
{
    const struct train_tensors *on = x->on;
    int n_data = train_n_data(&on->ranks), own = on->ranks.data_rank;
    size_t n = x->stage_bytes;
    struct span s = span_of(x, own);
    struct comm_job j = {
        .kind = COMM_ALL_GATHER, .in = x->stage + (size_t)own * n, .out = x->stage, .n = n};
    if (piece_of(&s, lo, n))
        stream_copy(x->stream, x->stage + (size_t)own * n, s.at + lo, piece_of(&s, lo, n),
                    COPY_ON_DEVICE);
    if (is_near(x) ? stream_sync(x->stream, e) || comm_run(data_of(x), &j, e)
                   : run_far(x, data_of(x), &j, n * (size_t)n_data, e))
        return -1;
    for (int d = 0; d < n_data; d++) {
        s = span_of(x, d);
        if (d != own && piece_of(&s, lo, n))
            stream_copy(x->stream, s.at + lo, x->stage + (size_t)d * n, piece_of(&s, lo, n),
                        COPY_ON_DEVICE);
    }
    return 0;
}

int exchange_values(struct exchange *x, struct err *e)
{
    size_t longest = data_of(x) ? longest_span(x) : 0;
    for (size_t lo = 0; lo < longest; lo += x->stage_bytes)
        if (gather_piece(x, lo, e))
            return -1;
    return 0;
}

int exchange_check(const struct exchange *x, struct err *e)
{
    struct comm *c = tensor_of(x);
    return c ? comm_check(c, e) : 0;
}
