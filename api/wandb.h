/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said to Weights & Biases, and what it answers, as their own SDK does: a run is made, or
 * found again, by a mutation of GraphQL, whose answer says where it lies and how many lines its
 * history has; lines go there by their place, so that one which is sent again stands there once.
 *
 * Thread: any.
 */
#ifndef API_WANDB_H
#define API_WANDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

enum { WANDB_NAME_BYTES = 256, WANDB_NUMBERS = 64, WANDB_NUMBER_NAME_BYTES = 48 };

struct wandb_run_names {
    const char *entity; /* whose project it is; NULL: the key's own */
    const char *project, *run, *shown;
    const char *config; /* JSON of an object: of each member an object with its `value` */
};
void wandb_write_run(const struct wandb_run_names *n, struct buf *out);

struct wandb_place {
    char entity[WANDB_NAME_BYTES], project[WANDB_NAME_BYTES];
    int64_t n_line; /* that its history has */
};
int wandb_read_run(const char *text, size_t n, struct wandb_place *out, struct err *e);

/* Below the API's address: where the run's lines go. */
void wandb_write_path(const struct wandb_place *p, const char *run, struct buf *out);

/* Numbers of a step by their names; one that is set again is the last one. */
struct wandb_numbers {
    size_t n;
    struct {
        char name[WANDB_NUMBER_NAME_BYTES];
        double value;
    } at[WANDB_NUMBERS];
};
void wandb_set(struct wandb_numbers *n, const char *name, double value);

/* A line of a history, or a summary, as a string of JSON. */
struct wandb_when {
    int64_t step;
    double s, since_begin_s; /* since 1970; of the run */
};
void wandb_write_line(const struct wandb_numbers *n, const struct wandb_when *when,
                      struct buf *out);

/* What is sent at once. */
struct wandb_part {
    int64_t first;           /* line's place */
    const char *lines;       /* strings, commas between them; NULL: none */
    const char *summary;     /* a string; NULL: none */
    bool is_end, has_failed; /* the run is over */
};
void wandb_write_part(const struct wandb_part *p, struct buf *out);

#endif
