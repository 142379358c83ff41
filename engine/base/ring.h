/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue of fixed capacity between exactly two threads, one that pushes and one that pops, without
 * a lock: neither ever waits for the other. Elements are copied in and out.
 *
 * Each side keeps what it last knew of the other's place, and looks again only when that is not
 * enough; so in a steady flow the two do not fight for a cache line.
 *
 * Thread: ring_push from one, ring_pop from one; ring_count from either, and then it is a bound
 * that only the other side can move.
 */
#ifndef ENGINE_BASE_RING_H
#define ENGINE_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>

struct ring;

struct ring *ring_new(size_t cap, size_t elem_bytes); /* at least cap elements */
void ring_free(struct ring *r);                       /* what is still in it is dropped */

bool ring_push(struct ring *r, const void *elem); /* false: full */
bool ring_pop(struct ring *r, void *elem);        /* false: empty */
size_t ring_count(const struct ring *r);

#endif
