/* SPDX-License-Identifier: Apache-2.0
 *
 * What the maker of a sequence does to it between sched_next and sched_ran.
 */
#include "engine/sched/seq.h"

#include "engine/base/err.h"

void seq_push(struct seq *q, int32_t token)
{
    ASSERT(q->n_tok < q->n_max && !q->is_finished);
    q->token[q->n_tok++] = token;
}

void seq_promise(struct seq *q)
{
    seq_push(q, 0);
    q->is_open = true;
}

void seq_fill(struct seq *q, int32_t token)
{
    ASSERT(q->is_open);
    q->token[q->n_tok - 1] = token;
    q->is_open = false;
}

void seq_finish(struct seq *q)
{
    q->is_finished = true;
}
