/* SPDX-License-Identifier: Apache-2.0
 *
 * A model asked all rows: the log-probability of every piece's counted tokens, and what the model
 * says where a row has an answer. Many requests are with the engine at once; what each gets does
 * not depend on that.
 *
 * Thread: one at a time.
 */
#ifndef CLIENTS_EVAL_ASK_H
#define CLIENTS_EVAL_ASK_H

#include "clients/eval/rows.h"

struct adapter;
struct engine;

struct eval_ask {
    struct engine *engine;        /* borrowed: started */
    struct adapter *adapter;      /* borrowed; NULL: the base */
    const struct eval_rows *rows; /* borrowed */
    const char *stop;             /* borrowed: ends an answer; NULL: nothing but the model does */
    int64_t max_new;              /* tokens of an answer; 0: as many as tell whether it is right */
    void (*progress)(void *ctx, size_t done, size_t all); /* NULL: nobody is told */
    void *ctx;
};

/* What the model came to. */
struct eval_said {
    double *logprob; /* owned: [pieces] sum over the counted tokens */
    int64_t *n_tok;  /* owned: [pieces] counted tokens */
    char **text;     /* owned: [rows], each owned; NULL: nothing was asked */
    size_t n_row;
};

/* Released by the caller, behind a failure too. */
int eval_ask(const struct eval_ask *a, struct eval_said *out, struct err *e);
void eval_said_release(struct eval_said *s);

#endif
