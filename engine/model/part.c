/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds by pieces, section by section.
 */
#include "engine/model/part.h"

static struct part_run run_of(int64_t lo, int64_t n, int64_t pieces, const struct op_ranks *at)
{
    int64_t a = param_bound(n, pieces, at->rank, at->size);
    return (struct part_run){lo + a, param_bound(n, pieces, at->rank + 1, at->size) - a};
}

struct part part_of(const struct param *whole, const struct param_share *s,
                    const struct op_ranks *at)
{
    struct part p = {.output = {{0, whole->n}}, .n_output = 1, .input = {0, whole->k}};
    if (s->cut == PARAM_INPUTS)
        p.input = run_of(0, whole->k, s->pieces, at);
    p.is_zero = s->cut == PARAM_FIRST && at->rank > 0;
    if (s->cut != PARAM_OUTPUTS)
        return p;
    p.n_output = 0;
    for (int64_t lo = 0; lo < whole->n && p.n_output < PART_RUN_MAX;) {
        int64_t n = whole->section[0] ? whole->section[p.n_output] : whole->n;
        p.output[p.n_output++] = run_of(lo, n, s->pieces, at);
        lo += n;
    }
    return p;
}

struct part part_of_product(const struct param *whole, const struct param_share *s,
                            const struct op_ranks *at)
{
    struct part p = part_of(whole, s, at);
    if (whole->n_half)
        p.output[0] = (struct part_run){0, whole->lora_n}; /* every rank has all experts whole */
    return p;
}

void part_describe(struct param *p, const struct part *part)
{
    p->n = 0;
    for (int i = 0; i < part->n_output; i++) {
        p->n += part->output[i].n;
        if (part->n_output > 1)
            p->section[i] = part->output[i].n;
    }
    p->k = part->input.n;
    p->lo = part->output[0].lo;
}

int part_cut(const struct part *p, int64_t lo, int64_t hi, struct part_run run[PART_RUN_MAX])
{
    int n = 0;
    int64_t at = 0; /* where output[i] begins here */
    for (int i = 0; i < p->n_output; at += p->output[i++].n) {
        int64_t a = lo > at ? lo - at : 0, b = hi - at < p->output[i].n ? hi - at : p->output[i].n;
        if (a < b)
            run[n++] = (struct part_run){p->output[i].lo + a, b - a};
    }
    return n;
}
