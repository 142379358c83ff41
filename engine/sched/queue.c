/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap whose nodes know their place.
 */
#include "engine/sched/queue.h"

#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/sched/inner.h"

void queue_release(struct queue *q)
{
    ASSERT(!q->n);
    free(q->at);
    *q = (struct queue){0};
}

void queue_reserve(struct queue *q, size_t cap)
{
    if (cap <= q->cap)
        return;
    q->cap = cap > 2 * q->cap ? cap : 2 * q->cap;
    q->at = xrealloc(q->at, q->cap * sizeof *q->at);
}

static void put(struct queue *q, size_t i, struct seq_node *n)
{
    q->at[i] = n;
    n->queue_at = i;
}

/* Puts n where i is, or above. */
static void rise(struct queue *q, size_t i, struct seq_node *n)
{
    for (; i && node_before(n, q->at[(i - 1) / 2]); i = (i - 1) / 2)
        put(q, i, q->at[(i - 1) / 2]);
    put(q, i, n);
}

/* Puts n where i is, or below. */
static void sink(struct queue *q, size_t i, struct seq_node *n)
{
    for (size_t child; (child = 2 * i + 1) < q->n; i = child) {
        if (child + 1 < q->n && node_before(q->at[child + 1], q->at[child]))
            child++;
        if (node_before(n, q->at[child]))
            break;
        put(q, i, q->at[child]);
    }
    put(q, i, n);
}

void queue_push(struct queue *q, struct seq_node *n)
{
    queue_reserve(q, q->n + 1);
    rise(q, q->n++, n);
}

void queue_del(struct queue *q, struct seq_node *n)
{
    size_t i = n->queue_at;
    ASSERT(i < q->n && q->at[i] == n);
    struct seq_node *last = q->at[--q->n];
    if (last == n)
        return;
    if (i && node_before(last, q->at[(i - 1) / 2]))
        rise(q, i, last);
    else
        sink(q, i, last);
}

struct seq_node *queue_first(const struct queue *q)
{
    return q->n ? q->at[0] : NULL;
}
