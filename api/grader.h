/* SPDX-License-Identifier: Apache-2.0
 *
 * Graders, as OpenAI's reinforcement fine-tuning has them: what a sample of a model is worth.
 *
 *     string_check     1 or 0: eq, ne, like (contains), ilike (contains, in any case)
 *     text_similarity  0 to 1, by a measure of api/similarity.h
 *     multi            a formula (api/formula.h) over several of the others
 *
 * A grader that cannot say what a sample is worth (no member of that name, a formula that gives no
 * finite number) says why, and the sample is worth nothing.
 *
 * Thread: any; a grader is constant.
 */
#ifndef API_GRADER_H
#define API_GRADER_H

#include "api/grade_text.h"

enum { GRADER_SUB_MAX = 16 };

struct grader;

/* In the reader's arena; NULL: the reader's error says which of its members is wrong. */
const struct grader *grader_read(struct api_reader *r, const char *where, const json_t *v);

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
};

/* What it needs on the way lies in the arena. */
void grader_run(const struct grader *g, const json_t *item, const char *text, size_t n,
                struct arena *a, struct grade *out);

#endif
