/* SPDX-License-Identifier: Apache-2.0
 *
 * A check: what a job would say of a whole file. Asked for with the file; answered with the lines
 * that a job would refuse, what the others come to, and whether a job of it could begin.
 *
 * Thread: any.
 */
#ifndef API_CHECK_H
#define API_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "api/error.h"
#include "api/hyper.h"
#include "api/jout.h"
#include "engine/base/arena.h"

struct check_ask {
    const char *training_file;
    struct job_hyper hyper; /* of the job that it is for: its method, and of dpo its loss */
    const char *ignored;
};
int check_ask_parse(const char *body, size_t n, struct arena *a, struct check_ask *out,
                    struct api_error *e);

struct check_fault {
    int64_t line, example; /* from 1 */
    const char *message;
};

struct check {
    const char *training_file;
    int64_t n_line, n_example, min_example, n_tok, n_learn, n_cut, n_barren, n_fault;
    const struct check_fault *fault; /* [n_shown]: the first ones */
    size_t n_shown;
    const char *unread; /* members of rows that nothing reads; "": none */
};
void check_write(struct jout *j, const struct check *c);

#endif
