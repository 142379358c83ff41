/* SPDX-License-Identifier: Apache-2.0
 *
 * One block on each side: best of all rows, then their states.
 */
#include "engine/serve/fetch.h"

#include <string.h>

enum { ALIGN_BYTES = 64 };

static size_t aligned(size_t at)
{
    return (at + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static int make_found(struct fetch *f, size_t cap_out, struct err *e)
{
    f->state_at = aligned(cap_out * sizeof *f->best);
    f->found_bytes = aligned(f->state_at + cap_out * sizeof *f->state);
    f->best = device_host_alloc(f->device, f->found_bytes, "what a step found", e);
    f->found = f->best ? device_alloc(f->device, f->found_bytes + cap_out * sizeof *f->target,
                                      "what a step found", e)
                       : NULL;
    if (!f->found)
        return -1;
    f->state = (struct k_ce_state *)(void *)((char *)f->best + f->state_at);
    f->target = (int32_t *)(void *)(f->found + f->found_bytes);
    return 0;
}

int fetch_init(struct fetch *f, struct device *d, int64_t cap_out, int64_t cols, bool is_logits,
               struct err *e)
{
    size_t bytes = (size_t)cap_out * (size_t)cols * sizeof *f->rows;
    *f = (struct fetch){.cols = cols};
    if (device_reads_host(d))
        return 0;
    f->device = d;
    f->rows = device_host_alloc(d, bytes, "the rows of a step", e);
    return f->rows && !(is_logits && make_found(f, (size_t)cap_out, e)) ? 0 : -1;
}

void fetch_release(struct fetch *f)
{
    if (!f->device)
        return;
    device_host_free(f->device, f->rows);
    device_host_free(f->device, f->best);
    device_mem_free(f->device, f->found);
    *f = (struct fetch){.cols = 0};
}

static void copy_row(struct fetch *f, const struct op_view *out, int64_t i, struct stream *s)
{
    stream_copy(s, f->rows + i * f->cols, out->p + i * out->ld, (size_t)f->cols * sizeof *f->rows,
                COPY_FROM_DEVICE);
}

/* The largest of each row; with folds the row's sum as op ce has it, chunk by chunk. Its target is
 * any token: what is folded of it is not read. */
static void find(struct fetch *f, const struct op_view *out, int64_t n_row, bool folds,
                 struct stream *s)
{
    struct k_argmax best = {.x = out->p,
                            .ld = out->ld,
                            .m = n_row,
                            .n = f->cols,
                            .best = (struct k_best *)(void *)f->found};
    stream_launch(s, K_argmax, &best, sizeof best);
    for (int64_t lo = 0; folds && lo < f->cols; lo += K_CE_CHUNK) {
        struct k_ce a = {.logits = out->p + lo,
                         .ld = out->ld,
                         .m = n_row,
                         .lo = lo,
                         .n = f->cols - lo < K_CE_CHUNK ? f->cols - lo : K_CE_CHUNK,
                         .target = f->target,
                         .state = (struct k_ce_state *)(void *)(f->found + f->state_at)};
        stream_launch(s, K_ce_fwd, &a, sizeof a);
    }
    stream_copy(s, f->best, f->found, (size_t)n_row * sizeof *f->best, COPY_FROM_DEVICE);
    if (folds)
        stream_copy(s, f->state, f->found + f->state_at, (size_t)n_row * sizeof *f->state,
                    COPY_FROM_DEVICE);
}

static bool wants_state(const struct sample_task *t)
{
    return t->known >= 0 || t->row.wants_logprob || t->row.n_top > 0;
}

int fetch_tasks(struct fetch *f, const struct op_view *out, int64_t n_row, struct sample_task *task,
                int64_t n_task, struct stream *s, struct err *e)
{
    bool folds = false;
    if (!f->device || n_task == 0)
        return stream_sync(s, e);
    for (int64_t i = 0; i < n_task; i++)
        folds |= wants_state(&task[i]);
    find(f, out, n_row, folds, s);
    for (int64_t i = 0; i < n_task; i++) {
        struct sample_row *r = &task[i].row;
        int64_t at = (r->logits - out->p) / out->ld;
        r->best = &f->best[at];
        r->state = folds ? &f->state[at] : NULL;
        r->logits = NULL;
        if (!sample_needs_logits(r, task[i].known))
            continue;
        copy_row(f, out, at, s);
        r->logits = f->rows + at * f->cols;
    }
    return stream_sync(s, e);
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
