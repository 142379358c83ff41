/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole matrices that are trained beside an adapter's halves (engine/model/saved.h): copies of the
 * model's, packed as it is, which stay as they are for everybody else. They are tensors of the
 * training like those of a full one, and the model's function is built with them in place of its
 * own.
 *
 * Owned by the subject (engine/train/subject.h).
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_SAVED_H
#define ENGINE_TRAIN_SAVED_H

#include "engine/model/model.h"
#include "engine/train/options.h"

struct train_saved {
    const struct model *model;         /* borrowed */
    struct param *is[SAVED_COUNT];     /* owned; NULL: the model's own is not trained */
    struct param *before[SAVED_COUNT]; /* owned: what losses compare with; NULL: the model's */
    void *block;                       /* owned: memory of all of them */
    size_t bytes, reference_bytes;     /* of block; of that what `before` takes */
};

/* "lm_head,embed_tokens" as TRAIN_SAVES_*; "" is none. */
int train_saved_parse(const char *names, unsigned *saves, struct err *e);
const char *train_saved_text(unsigned saves); /* and back */

/* Whether a training with these options can have them. */
int train_saved_check(const struct model *m, const struct train_options *o, struct err *e);

/* Copies of the model's, and of these another where a reference is wanted. */
int train_saved_init(struct train_saved *s, const struct model *m, unsigned saves,
                     bool has_reference, struct stream *stream, struct err *e);
void train_saved_release(struct train_saved *s);

/* The values as they are now are the reference. */
void train_saved_refer(struct train_saved *s, struct stream *stream);

#endif
