/* SPDX-License-Identifier: Apache-2.0
 *
 * What the maker of a sequence does to it between sched_next and sched_ran; and, for drafts, within
 * sched_next.
 */
#include "engine/sched/seq.h"

#include "engine/base/err.h"

void seq_push(struct seq *q, int32_t token)
{
    if (q->is_open) {
        q->token[q->n_tok - 1] = token;
        q->is_open = false;
        return;
    }
    ASSERT(q->n_tok < q->n_max && !q->is_finished);
    q->is_paused = false;
    if (q->n_draft > 0 && q->token[q->n_tok] == token) {
        q->n_draft--;
        q->n_agreed++;
    } else {
        q->n_draft = 0;
    }
    q->token[q->n_tok++] = token;
}

void seq_promise(struct seq *q)
{
    ASSERT(!q->is_open && !q->n_draft);
    seq_push(q, 0);
    q->is_open = true;
}

void seq_draft(struct seq *q, int64_t n)
{
    ASSERT(!q->is_open && n >= 0 && (!n || q->n_tok + n < q->n_max));
    q->n_draft = n;
}

void seq_pause(struct seq *q)
{
    ASSERT(!q->is_open && !q->n_draft);
    q->is_paused = true;
}

void seq_finish(struct seq *q)
{
    q->is_finished = true;
}
