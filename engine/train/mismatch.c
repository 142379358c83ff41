/* SPDX-License-Identifier: Apache-2.0
 *
 * One block for all rows, since how long they become is known before they are made.
 */
#include "engine/train/mismatch.h"

#include <math.h>
#include <string.h>

#include "engine/base/carve.h"
#include "engine/base/mem.h"

/* Tokens before the first one that is learned. */
static int64_t prompt_of(const struct train_row *r)
{
    int64_t n = 0;
    while (n < r->n && r->label[n] < 0)
        n++;
    ASSERT(n < r->n);
    return n + 1;
}

static int64_t length_of(const struct train_row *row, int64_t n, int64_t i, int64_t row_max)
{
    const struct train_row *end = &row[(i + n - 1) % n];
    int64_t all = prompt_of(&row[i]) + end->n - prompt_of(end);
    return all < row_max ? all : row_max;
}

/* The arrays of all rows, one behind the other. */
struct room {
    int32_t *id, *label;
    float *logprob, *reference;
};

static size_t lay_out(struct mismatch *m, int64_t n, int64_t n_tok, struct room *to, void *base)
{
    struct carve c = {.base = base};
    m->row = carve(&c, n, sizeof *m->row);
    to->id = carve(&c, n_tok, sizeof *to->id);
    to->label = carve(&c, n_tok, sizeof *to->label);
    to->logprob = carve(&c, n_tok, sizeof *to->logprob);
    to->reference = carve(&c, n_tok, sizeof *to->reference);
    return c.at;
}

/* The label before the end's first token stands at the prompt's last. */
static void join(struct train_row *to, const struct room *at, const struct train_row *prompt,
                 const struct train_row *end, int64_t n)
{
    int64_t n_prompt = prompt_of(prompt), from = prompt_of(end);
    *to = (struct train_row){.id = at->id,
                             .label = at->label,
                             .logprob = at->logprob,
                             .reference = at->reference,
                             .n = n,
                             .key = prompt->key};
    memcpy(at->id, prompt->id, (size_t)n_prompt * sizeof *at->id);
    memcpy(at->id + n_prompt, end->id + from, (size_t)(n - n_prompt) * sizeof *at->id);
    for (int64_t i = 0; i < n; i++)
        at->label[i] = i + 1 < n_prompt || i + 1 == n ? -1 : end->label[from + i - n_prompt];
    at->reference[0] = NAN;
}

int mismatch_init(struct mismatch *m, const struct train_row *row, int64_t n, int64_t row_max,
                  struct err *e)
{
    struct room at;
    int64_t n_tok = 0;
    *m = (struct mismatch){.n = n};
    for (int64_t i = 0; i < n; i++)
        n_tok += length_of(row, n, i, row_max);
    m->block = try_alloc(lay_out(m, n, n_tok, &at, NULL), 1, "rows of the divergence", e);
    if (!m->block)
        return -1;
    lay_out(m, n, n_tok, &at, m->block);
    for (int64_t i = 0; i < n; i++) {
        int64_t len = length_of(row, n, i, row_max);
        join(&m->row[i], &at, &row[i], &row[(i + n - 1) % n], len);
        at = (struct room){at.id + len, at.label + len, at.logprob + len, at.reference + len};
    }
    return 0;
}

void mismatch_release(struct mismatch *m)
{
    mem_free(m->block);
    *m = (struct mismatch){0};
}

double mismatch_divergence(const struct mismatch *m)
{
    double sum = 0;
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t k = 0; k < m->row[i].n; k++)
            if (m->row[i].label[k] >= 0)
                sum += (double)m->row[i].logprob[k] - (double)m->row[i].reference[k];
    return fmax(0, sum / (double)m->n);
}
