/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the graders share.
 *
 * Thread: any.
 */
#ifndef API_GRADER_OWN_H
#define API_GRADER_OWN_H

#include "api/formula.h"
#include "api/grader.h"
#include "api/similarity.h"

enum { GRADER_PLACE_BYTES = 96, GRADER_NAME_MAX = 64, GRADER_ANSWER_BYTES = 1 << 20 };

enum grader_kind {
    GRADER_STRING_CHECK,
    GRADER_TEXT_SIMILARITY,
    GRADER_SCORE_MODEL,
    GRADER_LABEL_MODEL,
    GRADER_ENDPOINT,
    GRADER_PROGRAM,
    GRADER_MULTI
};

struct grader {
    enum grader_kind kind;
    const char *name;
    const char *where; /* its place in what was sent: of errors */
    const struct grade_text *input, *reference;
    int operation; /* of GRADER_STRING_CHECK: see grader_run.c */
    enum similarity metric;
    const struct grader_judge *judge;     /* of the two models */
    const struct grader_service *service; /* of an endpoint, and of a program */
    const struct formula *formula;
    const struct grader *sub[GRADER_SUB_MAX];
    const char *sub_name[GRADER_SUB_MAX];
    size_t n_sub;
};

const char *grader_kind_name(enum grader_kind kind);

/* One grader being read: where it stands is the beginning of its members' names. */
struct grader_place_at {
    struct api_reader *r;
    const char *where;
    const json_t *v;
    char name[GRADER_PLACE_BYTES];
};

const char *grader_member(struct grader_place_at *p, const char *member); /* its whole name */
const json_t *grader_need(struct grader_place_at *p, const char *member);
/* NULL: there is none, or its error is set: *is_bad. max: bytes, at least 1 of them, none NUL. */
const char *grader_word(struct grader_place_at *p, const char *member, const json_t *v, size_t max);
/* A member that the grader has not is refused: it would be thought to count. */
int grader_only(struct grader_place_at *p, const char *const *members);

/* What is graded, while it is. */
struct grader_sample {
    struct grade_sample of;
    struct arena *arena;
    const struct grader_outside *outside; /* NULL: nothing may be asked */
};

/* The fault of a question that has no answer; own: where it is the asked one's. */
enum grade_fault grader_unanswered(const struct grader_outside *o, const struct err *e,
                                   enum grade_fault own);

/* grader_judge.c: a model that says what a sample is worth. */
int grader_read_judge(struct grader_place_at *p, struct grader *g);
enum grade_fault grader_ask_judge(const struct grader *g, const struct grader_sample *s,
                                  struct grade *out, double *reward, struct err *e);
const char *grader_judge_url(const struct grader *g); /* NULL: it is served here */

/* grader_service.c: somebody's program, behind an address or sent along. */
int grader_read_endpoint(struct grader_place_at *p, struct grader *g);
int grader_read_program(struct grader_place_at *p, struct grader *g);
enum grade_fault grader_ask_service(const struct grader *g, const struct grader_sample *s,
                                    double *reward, struct err *e);
const char *grader_service_url(const struct grader *g);

#endif
