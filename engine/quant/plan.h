/* SPDX-License-Identifier: Apache-2.0
 *
 * Which matrices of a model become codes: those that its layers multiply with, where their inputs
 * are whole groups. Embeddings, the head, norms, biases and routers stay as they are.
 *
 * Thread: one makes it; any reads.
 */
#ifndef ENGINE_QUANT_PLAN_H
#define ENGINE_QUANT_PLAN_H

#include "engine/base/map.h"
#include "engine/base/vec.h"
#include "engine/load/model_dir.h"
#include "engine/model/model.h"
#include "engine/quant/group.h"

struct quant_entry {
    const struct param *p;     /* borrowed */
    const struct weight *from; /* borrowed from the directory */
    int64_t layer;
    bool is_shared;   /* reads what another before it reads, too */
    bool is_seen;     /* rounded by what its input was; else each number to the nearest */
    double error, of; /* squares: of the errors, of what they are of; of outputs where is_seen */
};

struct quant_plan {
    struct model *shape; /* owned: parameters without memory */
    const struct quant_target *target;
    int64_t group;                 /* inputs that share a scale; 0: all of a row */
    VEC(struct quant_entry) entry; /* by layer */
    VEC(const char *) kept;        /* borrowed: matrices of layers that are no whole groups */
    struct map by_name;            /* of entry, by the tensor's name; once all are there */
};

/* Refuses by name what is in few bits already, and what has no such matrices. group: not of fp8. */
int quant_plan_init(struct quant_plan *p, const struct model_dir *from,
                    const struct quant_target *target, int64_t group, struct err *e);
void quant_plan_release(struct quant_plan *p); /* of a half-built one, too */

/* What a matrix's inputs are whole multiples of: fp8 is served in blocks. */
int64_t quant_unit(const struct quant_plan *p);

/* An entry's inputs that share a scale, and what its scales are stored as. */
int64_t quant_group(const struct quant_plan *p, const struct quant_entry *t);
enum st_dtype quant_scale_dtype(const struct quant_plan *p, const struct quant_entry *t);

#endif
