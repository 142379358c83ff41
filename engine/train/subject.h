/* SPDX-License-Identifier: Apache-2.0
 *
 * The subject of a training: which tensors of a model are trained, and how they stand in the
 * model's function. An adapter's halves are the batch's groups, with the gains that follow from its
 * magnitudes (engine/train/magnitudes.h), and matrices that are trained whole beside them stand in
 * for the model's (engine/train/saved.h); a full training's tensors are the model's parameters.
 *
 * The two differ in three places, and these are all of it: what is listed, first values, how a
 * batch is bound.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_SUBJECT_H
#define ENGINE_TRAIN_SUBJECT_H

#include "engine/base/arena.h"
#include "engine/model/model.h"
#include "engine/run/packed.h"
#include "engine/train/magnitudes.h"
#include "engine/train/options.h"
#include "engine/train/saved.h"
#include "engine/train/tensors.h"

struct train_subject {
    struct model *model;   /* borrowed; a full training's own: it changes */
    struct stream *stream; /* borrowed */
    struct train_lora lora;
    struct train_saved saved;
    struct train_magnitudes magnitudes;
    struct train_tensors tensors;
    int32_t *half_a;  /* owned: [n_lora] place of each product's A in the list, behind which are B
                       * and  its magnitudes where it has any; -1: none */
    float *reference; /* owned: device memory, [tensors.n_half] values that losses compare with;
                       * NULL: they compare with none, or with the model without an adapter */
};

/* Fails where no product has one of the targets' names. */
int train_subject_init(struct train_subject *s, struct model *m, struct stream *stream,
                       const struct train_options *o, struct err *e);
void train_subject_release(struct train_subject *s);

/* Whether a model has products of the targets' names; ERR_BAD_INPUT with the one it lacks. */
int train_lora_check(const struct train_lora *l, const struct model *m, struct err *e);

/* The end of a module's path of n bytes by which it is a target: its last part, and where that is a
 * number the one before it, too, for modules of all sorts are numbered. */
const char *train_target_name(const char *path, size_t n);

/* "q_proj,v_proj" as targets; their texts lie in the arena. */
void train_lora_split(struct train_lora *l, const char *names, struct arena *a);

/* In any order. */
bool train_lora_same_targets(const struct train_lora *a, const struct train_lora *b);

double train_lora_scale(const struct train_lora *l); /* of the adapter's product */

/* What PEFT calls such a tensor of a product, "lora_A.weight". */
const char *train_subject_word(enum train_side side);

/* What follows from the values as they are now; before rows are run with them. */
int train_subject_ready(struct train_subject *s, struct err *e);

/* The values as they are now are the reference, where there is room for one. */
int train_subject_refer(struct train_subject *s, struct err *e);
size_t train_subject_reference_bytes(const struct train_subject *s);

/* Points the micro-batch's adapter groups at the halves, or at the reference's; before
 * packed_batch. saved: the matrices that the function is to be built with in place of the model's;
 * NULL: the model's. */
void train_subject_bind(const struct train_subject *s, bool is_reference, struct packed *p,
                        const struct param *saved[SAVED_COUNT]);

#endif
