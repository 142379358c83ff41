/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step asks is laid out anew each time, as many entries as it has, one array behind the
 * other at the same places on both sides; so is what was found. Each goes over in one copy.
 */
#include "engine/serve/fetch.h"

#include <string.h>

#include "engine/base/carve.h"
#include "engine/sample/ask.h"

/* What the device is told. Of the host; `to` is the way to the device's. */
struct ask {
    struct k_sample_how *how; /* [n_row] */
    int32_t *known;           /* [n_row] tokens to be scored; -1: none */
    int32_t *top_k;           /* [n_row] */
    float *top_p, *min_p;     /* [n_row] no cuts */
    struct k_edit_row *edited;
    struct k_edit *edit;
    size_t bytes;
};

/* What it finds. The ids come first, so that they stand in one place whatever a step asks. */
struct found {
    int32_t *id; /* [n_row] */
    struct k_best *best;
    struct k_ce_state *state;
    float *logit;
    int32_t *top_id; /* [n_row, n_top] */
    float *top_logit;
    size_t bytes;
};

/* A step's rows on their way. */
struct way {
    struct fetch *f; /* borrowed, as the rest */
    const struct op_view *out;
    struct stream *s;
    int64_t n_row, n_top, n_edited, n_edit;
    bool folds;
    struct ask ask, ask_dev;
    struct found found, found_dev;
};

/* ---- memory -------------------------------------------------------------------------------- */

/* Edits come last: how many there are shows only as they are written. */
static void lay_ask(struct ask *a, char *base, int64_t n_row, int64_t n_edit)
{
    struct carve c = {.base = base};
    a->how = carve(&c, n_row, sizeof *a->how);
    a->known = carve(&c, n_row, sizeof *a->known);
    a->top_k = carve(&c, n_row, sizeof *a->top_k);
    a->top_p = carve(&c, n_row, sizeof *a->top_p);
    a->min_p = carve(&c, n_row, sizeof *a->min_p);
    a->edited = carve(&c, n_row, sizeof *a->edited);
    a->edit = carve(&c, n_edit, sizeof *a->edit);
    a->bytes = c.at;
}

static void lay_found(struct found *r, char *base, int64_t n_row, int64_t n_top)
{
    struct carve c = {.base = base};
    r->id = carve(&c, n_row, sizeof *r->id);
    r->best = carve(&c, n_row, sizeof *r->best);
    r->state = carve(&c, n_row, sizeof *r->state);
    r->logit = carve(&c, n_row, sizeof *r->logit);
    r->top_id = carve(&c, n_row * n_top, sizeof *r->top_id);
    r->top_logit = carve(&c, n_row * n_top, sizeof *r->top_logit);
    r->bytes = c.at;
}

static int64_t top_max(const struct fetch *f)
{
    return f->cols < SAMPLE_TOP_MAX ? f->cols : SAMPLE_TOP_MAX;
}

static int make_found(struct fetch *f, struct err *e)
{
    static const char what[] = "what a step found";
    struct ask ask;
    struct found found;
    lay_ask(&ask, NULL, f->cap_out, FETCH_EDITS);
    lay_found(&found, NULL, f->cap_out, top_max(f));
    f->ask_bytes = ask.bytes;
    f->found_bytes = found.bytes;
    for (int i = 0; i < FETCH_SLOTS; i++) {
        f->slot[i].ask = device_host_alloc(f->device, f->ask_bytes, what, e);
        if (!f->slot[i].ask)
            return -1;
        f->slot[i].found = device_host_alloc(f->device, f->found_bytes, what, e);
        if (!f->slot[i].found)
            return -1;
    }
    f->ask = device_alloc(f->device, f->ask_bytes, what, e);
    f->found = f->ask ? device_alloc(f->device, f->found_bytes, what, e) : NULL;
    size_t rest = (size_t)(f->cap_out * (top_max(f) + 1)) * sizeof(float);
    f->rest = f->found ? device_alloc(f->device, rest, what, e) : NULL;
    return f->rest ? 0 : -1;
}

int fetch_init(struct fetch *f, struct device *d, int64_t cap_out, int64_t cols, bool is_logits,
               struct err *e)
{
    size_t bytes = (size_t)cap_out * (size_t)cols * sizeof *f->rows;
    *f = (struct fetch){.cap_out = cap_out, .cols = cols};
    if (device_reads_host(d))
        return 0;
    f->device = d;
    f->rows = device_host_alloc(d, bytes, "the rows of a step", e);
    return f->rows && !(is_logits && make_found(f, e)) ? 0 : -1;
}

void fetch_release(struct fetch *f)
{
    if (!f->device)
        return;
    device_host_free(f->device, f->rows);
    for (int i = 0; i < FETCH_SLOTS; i++) {
        device_host_free(f->device, f->slot[i].ask);
        device_host_free(f->device, f->slot[i].found);
    }
    device_mem_free(f->device, f->ask);
    device_mem_free(f->device, f->found);
    device_mem_free(f->device, f->rest);
    *f = (struct fetch){.cols = 0};
}

const int32_t *fetch_ids(const struct fetch *f)
{
    return (const int32_t *)(const void *)f->found;
}

/* ---- what is asked ------------------------------------------------------------------------- */

static int64_t row_of(const struct way *w, const struct sample_task *t)
{
    return (t->row.logits - w->out->p) / w->out->ld;
}

/* The row's changes join the list; false: there is no room for them. */
static bool add_edits(struct way *w, const struct sample_row *r, int64_t at)
{
    struct k_edit_row *h = &w->ask.edited[w->n_edited];
    *h = (struct k_edit_row){.row = (int32_t)at, .at = (int32_t)w->n_edit};
    int64_t n = sample_ask_edits(r, h, w->ask.edit + w->n_edit, FETCH_EDITS - w->n_edit);
    if (n < 0)
        return false;
    w->n_edited++;
    w->n_edit += n;
    return true;
}

static void copy_row(struct fetch *f, const struct op_view *out, int64_t i, struct stream *s)
{
    stream_copy(s, f->rows + i * f->cols, out->p + i * out->ld, (size_t)f->cols * sizeof *f->rows,
                COPY_FROM_DEVICE);
}

/* The task's part of what is asked; false: the host takes its token, from the whole row. */
static bool ask_task(struct way *w, struct sample_task *t, int64_t at)
{
    struct sample_row *r = &t->row;
    if (t->known >= 0) {
        w->ask.known[at] = t->known;
        return !sample_needs_logits(r);
    }
    if (sample_needs_logits(r) || (sample_is_edited(r) && !add_edits(w, r, at)))
        return false;
    w->ask.how[at] = sample_ask(r);
    return true;
}

static void ask_none(struct way *w)
{
    memset(w->ask.how, 0, (size_t)w->n_row * sizeof *w->ask.how);
    for (int64_t i = 0; i < w->n_row; i++) {
        w->ask.known[i] = -1;
        w->ask.top_k[i] = (int32_t)w->n_top;
        w->ask.top_p[i] = 1;
        w->ask.min_p[i] = 0;
    }
}

static bool wants_sum(const struct sample_task *t)
{
    return t->known >= 0 || t->row.wants_logprob || t->row.n_top > 0;
}

/* Where the task's answer will stand. */
static void point(const struct way *w, struct sample_task *t, int64_t at, bool is_drawn)
{
    const struct found *found = &w->found;
    struct sample_row *r = &t->row;
    r->best = &found->best[at];
    r->logits = is_drawn ? NULL : w->f->rows + at * w->f->cols;
    if (!is_drawn)
        return;
    r->drawn = t->known < 0 ? &found->id[at] : NULL;
    r->state = w->folds ? &found->state[at] : NULL;
    r->logit = t->known < 0 ? &found->logit[at] : &found->state[at].target_logit;
    r->top_id = w->n_top > 0 ? found->top_id + at * w->n_top : NULL;
    r->top_logit = w->n_top > 0 ? found->top_logit + at * w->n_top : NULL;
}

static bool ask_all(struct way *w, struct sample_task *task, int64_t n_task)
{
    bool is_all = true;
    ask_none(w);
    for (int64_t i = 0; i < n_task; i++) {
        int64_t at = row_of(w, &task[i]);
        bool is_drawn = ask_task(w, &task[i], at);
        if (!is_drawn)
            copy_row(w->f, w->out, at, w->s); /* as it is before any edit */
        point(w, &task[i], at, is_drawn);
        is_all &= is_drawn;
    }
    return is_all;
}

/* ---- what is launched ---------------------------------------------------------------------- */

/* The row's sum as op ce has it, chunk by chunk, and the logit of a known token. */
static void fold(const struct way *w)
{
    int64_t cols = w->f->cols;
    for (int64_t lo = 0; lo < cols; lo += K_CE_CHUNK) {
        struct k_ce a = {.logits = w->out->p + lo,
                         .ld = w->out->ld,
                         .m = w->n_row,
                         .lo = lo,
                         .n = cols - lo < K_CE_CHUNK ? cols - lo : K_CE_CHUNK,
                         .target = w->ask_dev.known,
                         .state = w->found_dev.state};
        stream_launch(w->s, K_ce_fwd, &a, sizeof a);
    }
}

static void pick(const struct way *w, const int32_t *id, float *y, int64_t n_id)
{
    struct k_pick a = {.x = w->out->p,
                       .ld = w->out->ld,
                       .m = w->n_row,
                       .n = w->f->cols,
                       .id = id,
                       .y = y,
                       .n_id = n_id};
    stream_launch(w->s, K_pick, &a, sizeof a);
}

static void find_top(const struct way *w)
{
    float *prob = (float *)(void *)w->f->rest;
    struct k_top_select a = {.logits = w->out->p,
                             .ld = w->out->ld,
                             .m = w->n_row,
                             .n = w->f->cols,
                             .top_k = w->ask_dev.top_k,
                             .top_p = w->ask_dev.top_p,
                             .min_p = w->ask_dev.min_p,
                             .id = w->found_dev.top_id,
                             .prob = prob,
                             .n_left = (int32_t *)(void *)(prob + w->n_row * w->n_top),
                             .n_max = w->n_top};
    stream_launch(w->s, K_top_select, &a, sizeof a);
    pick(w, w->found_dev.top_id, w->found_dev.top_logit, w->n_top);
}

/* Of the rows as the model made them. */
static void find_plain(const struct way *w)
{
    struct k_argmax best = {.x = w->out->p,
                            .ld = w->out->ld,
                            .m = w->n_row,
                            .n = w->f->cols,
                            .best = w->found_dev.best};
    stream_launch(w->s, K_argmax, &best, sizeof best);
    if (w->folds)
        fold(w);
    if (w->n_top > 0)
        find_top(w);
}

static void draw(const struct way *w)
{
    struct k_logit_edit edit = {.logits = w->out->p,
                                .ld = w->out->ld,
                                .n = w->f->cols,
                                .m = w->n_edited,
                                .how = w->ask_dev.edited,
                                .edit = w->ask_dev.edit};
    struct k_sample sample = {.logits = w->out->p,
                              .ld = w->out->ld,
                              .m = w->n_row,
                              .n = w->f->cols,
                              .how = w->ask_dev.how,
                              .best = w->found_dev.best,
                              .id = w->found_dev.id};
    if (w->n_edited > 0)
        stream_launch(w->s, K_logit_edit, &edit, sizeof edit);
    stream_launch(w->s, K_sample, &sample, sizeof sample);
    if (w->folds)
        pick(w, w->found_dev.id, w->found_dev.logit, 1);
}

/* ---- the face ------------------------------------------------------------------------------ */

static void measure(struct way *w, const struct sample_task *task, int64_t n_task)
{
    for (int64_t i = 0; i < n_task; i++) {
        w->folds |= wants_sum(&task[i]);
        w->n_top = task[i].row.n_top > w->n_top ? task[i].row.n_top : w->n_top;
    }
    w->n_top = w->n_top < top_max(w->f) ? w->n_top : top_max(w->f);
}

bool fetch_tasks(struct fetch *f, int slot, const struct op_view *out, int64_t n_row,
                 struct sample_task *task, int64_t n_task, struct stream *s)
{
    struct way w = {.f = f, .out = out, .s = s, .n_row = n_row};
    if (!f->device || n_task == 0)
        return f->device != NULL;
    measure(&w, task, n_task);
    lay_ask(&w.ask, f->slot[slot].ask, n_row, FETCH_EDITS);
    lay_ask(&w.ask_dev, f->ask, n_row, FETCH_EDITS);
    lay_found(&w.found, f->slot[slot].found, n_row, w.n_top);
    lay_found(&w.found_dev, f->found, n_row, w.n_top);
    bool is_all = ask_all(&w, task, n_task);
    size_t told = (size_t)((char *)(w.ask.edit + w.n_edit) - f->slot[slot].ask);
    stream_copy(s, f->ask, f->slot[slot].ask, told, COPY_TO_DEVICE);
    find_plain(&w);
    draw(&w);
    stream_copy(s, f->slot[slot].found, f->found, w.found.bytes, COPY_FROM_DEVICE);
    return is_all;
}

int fetch_rows(struct fetch *f, struct op_view *out, int64_t n_row, struct stream *s, struct err *e)
{
    for (int64_t i = 0; f->device && i < n_row; i++)
        copy_row(f, out, i, s);
    if (f->device) {
        out->p = f->rows;
        out->ld = f->cols;
    }
    return stream_sync(s, e);
}
