/* SPDX-License-Identifier: Apache-2.0
 *
 * A text of a grader: what stands in it between {{ and }} is looked up in the row's item or in what
 * the model said.
 *
 *     {{ item.name }}  {{ item.list.0.name }}  {{ sample.output_text }}  {{ sample.output_json.name
 * }}
 *
 * A string goes in as it is, anything else as JSON.
 *
 * Thread: any; a text is constant.
 */
#ifndef API_GRADE_TEXT_H
#define API_GRADE_TEXT_H

#include "api/json.h"

struct api_reader;
struct grade_text;

/* In the reader's arena; NULL: its error says why. */
const struct grade_text *grade_text_read(struct api_reader *r, const char *name, const json_t *v);

/* What a text is filled from. */
struct grade_sample {
    const json_t *item; /* borrowed; NULL: there is none */
    const char *text;   /* of the model, UTF-8 */
    size_t n;
    const json_t *json; /* the text's; NULL: it is none */
};

/* What came of filling it, or of grading. */
enum grade_fault {
    GRADE_GOOD,
    GRADE_NO_JSON,        /* the text is no JSON */
    GRADE_NO_VARIABLE,    /* the item or the text's JSON has no such member */
    GRADE_OTHER,          /* no finite number, or texts that are too long */
    GRADE_MODEL_SERVER,   /* the model that judges did not answer, */
    GRADE_MODEL_REFUSAL,  /* would not, */
    GRADE_MODEL_PARSE,    /* or said something else */
    GRADE_UNRESPONSIVE,   /* the endpoint did not answer, or said something else */
    GRADE_PYTHON_SERVER,  /* the program could not be run, or did not end in its bounds */
    GRADE_PYTHON_RUNTIME, /* it failed, or returned something else */
    GRADE_ENDED,          /* nobody waits for it any more */
    GRADE_BROKEN,         /* the server could not ask: says nothing of the grader */
    GRADE_FAULT_COUNT
};

const char *grade_fault_name(enum grade_fault fault); /* "sample_parse_error"; NULL of GOOD, ENDED,
                                                       * BROKEN */

/* In the arena; a fault's error says what. */
enum grade_fault grade_text_fill(const struct grade_text *t, const struct grade_sample *s,
                                 struct arena *a, const char **out, size_t *n, struct err *e);

/* A value as JSON, as variables are. */
struct jout;
void grade_json_put(struct jout *j, const json_t *v);

#endif
