/* SPDX-License-Identifier: Apache-2.0
 *
 * Graders, as OpenAI's reinforcement fine-tuning has them: what a sample of a model is worth.
 *
 *     string_check     1 or 0: eq, ne, like (contains), ilike (contains, in any case)
 *     text_similarity  0 to 1, by a measure of api/similarity.h
 *     score_model      what a model says, within a range
 *     label_model      1 or 0: whether a model chooses a label that passes
 *     endpoint         what somebody's program answers at an address
 *     python           what a program that is sent along returns
 *     multi            a formula (api/formula.h) over several of the others
 *
 * Models, endpoints and programs are asked through whoever runs the grader (grader_outside.h).
 * A grader that cannot say what a sample is worth (no member of that name, a formula that gives no
 * finite number) says why, and the sample is worth nothing.
 *
 * Thread: any; a grader is constant.
 */
#ifndef API_GRADER_H
#define API_GRADER_H

#include "api/grade_text.h"
#include "api/grader_outside.h"

enum { GRADER_SUB_MAX = 16, GRADER_MODEL_BYTES = 128 };

struct grader;

/* In the reader's arena; NULL: the reader's error says which of its members is wrong. */
const struct grader *grader_read(struct api_reader *r, const char *where, const json_t *v);

/* Whether all that it asks for may be asked; a 400 with the member otherwise. */
int grader_check(const struct grader *g, const struct grader_outside *o, struct api_error *e);

/* Whether it asks others: then the same sample may be worth something else the next time. */
bool grader_is_outside(const struct grader *g);

/* Tokens that a model took to judge. */
struct grade_usage {
    const char *model;
    int64_t prompt, completion;
};

struct grade {
    double reward; /* finite; 0 where there is a fault */
    enum grade_fault fault;
    char why[512]; /* the fault's */
    const char *name, *type;
    size_t n_sub; /* of a multi */
    struct {
        const char *name;
        double reward;
    } sub[GRADER_SUB_MAX];
    struct grade_usage usage[GRADER_SUB_MAX]; /* of each model's answer */
    size_t n_usage;
};

/* What it needs on the way, and texts of the grade, lie in the arena. outside: NULL: nothing can be
 * asked. Where it is given up (GRADE_ENDED, GRADE_BROKEN) there is no grade. */
void grader_run(const struct grader *g, const json_t *item, const char *text, size_t n,
                const struct grader_outside *outside, struct arena *a, struct grade *out);

#endif
