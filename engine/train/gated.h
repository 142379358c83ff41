/* SPDX-License-Identifier: Apache-2.0
 *
 * A training's turn at the compute threads that it shares with a server: within it the stream asks
 * behind each kernel whether it may go on, and waits where it may not.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_GATED_H
#define ENGINE_TRAIN_GATED_H

struct comm;
struct gate;
struct stream;

/* gate NULL: nobody else computes. model: of ranks that share the model; NULL: one. */
void gated_enter(struct gate *g, struct stream *s, struct comm *model);
void gated_leave(struct gate *g, struct stream *s, struct comm *model);

#endif
