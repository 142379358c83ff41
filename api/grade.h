/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/fine_tuning/alpha/graders/run and /validate: what is asked, what is answered.
 *
 * Thread: any.
 */
#ifndef API_GRADE_H
#define API_GRADE_H

#include "api/grader.h"
#include "api/jout.h"

struct grade_ask {
    const struct grader *grader;
    const json_t *grader_json, *item; /* of the body's tree; item: NULL: there is none */
    const char *sample;
    size_t n_sample;
    const char *ignored;
};

/* A body with a sample to be graded, or with the grader alone. */
int grade_ask_parse(const char *body, size_t n, bool has_sample, struct arena *a,
                    struct grade_ask *out, struct api_error *e);

void grade_write(struct jout *j, const struct grade *g, double seconds);

/* The grader as it was sent. */
int grader_echo_write(struct jout *j, const struct grade_ask *ask, struct err *e);

#endif
