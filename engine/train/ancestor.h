/* SPDX-License-Identifier: Apache-2.0
 *
 * The ancestor of a training: a finished adapter whose values it begins with, and with which losses
 * that have a reference compare. It is a PEFT directory, known by the digest of its files: what is
 * altered on the way is refused, since a training that goes on would end with other bits.
 *
 * Thread: the trainer's; train_ancestor_read: any.
 */
#ifndef ENGINE_TRAIN_ANCESTOR_H
#define ENGINE_TRAIN_ANCESTOR_H

#include "engine/base/arena.h"
#include "engine/train/subject.h"

/* What an adapter is, without a model: its digest, and of l its rank, its alpha, its scale's kind
 * and its targets, whose names lie in the arena. ERR_UNSUPPORTED: its products are not alike. */
int train_ancestor_read(const char *dir, struct train_ancestor *out, struct train_lora *l,
                        struct arena *a, struct err *e);

/* Its values become the subject's, and stay what the subject's reference is. ERR_CORRUPT: it is not
 * what its digest says. A call of all ranks, of which the first reads. */
int train_ancestor_load(const struct train_ancestor *from, struct train_subject *s, struct err *e);

#endif
