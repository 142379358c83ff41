/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequences that wait, as a heap: who goes first is at hand, and any of them can leave.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_SCHED_QUEUE_H
#define ENGINE_SCHED_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct seq_node;

struct queue {
    struct seq_node **at; /* owned; the nodes are the scheduler's */
    size_t n, cap;
};

void queue_release(struct queue *q);
void queue_reserve(struct queue *q, size_t cap); /* no push up to there allocates */
void queue_push(struct queue *q, struct seq_node *n);
void queue_del(struct queue *q, struct seq_node *n);
struct seq_node *queue_first(const struct queue *q); /* NULL: empty */

#endif
