/* SPDX-License-Identifier: Apache-2.0
 *
 * What one request gets, in two ways: from an engine, and alone, by feeding the model step by step
 * as `tandem run` does. Law 2 says that they are the same to the last bit.
 */
#ifndef TESTS_LIB_REPLY_H
#define TESTS_LIB_REPLY_H

#include "engine/engine.h"
#include "engine/model/adapter.h"
#include "tests/lib/golden.h"

struct reply {
    enum gen_end why;
    struct answer_end end;
    int64_t n, n_prompt; /* tokens of the answer; scored ones of the prompt */
    int32_t n_top;
    int32_t *id;              /* owned: [n] */
    float *logprob;           /* owned: [n] */
    uint64_t *text_safe;      /* owned: [n] */
    struct answer_top *top;   /* owned: [n, n_top] */
    float *prompt_logprob;    /* owned: [n_prompt]; the first is not there */
    struct answer_top *p_top; /* owned: [n_prompt, n_top] */
};

void reply_release(struct reply *r);

/* Waits for the end of an answer, and unrefs it. A minute without an end is a failure. */
void reply_wait(struct reply *r, struct answer *a, const struct gen_req *req);
enum gen_end answer_wait(const struct answer *a);

/* Alone on the model, in chunks of `chunk` tokens. */
void reply_alone(struct reply *r, struct golden *g, const struct gen_req *req, int64_t chunk);

/* Ids, log-probabilities, ends: all bits. */
void reply_same(const struct reply *got, const struct reply *want, const char *what);

/* One request, submitted and waited for. */
void reply_ask(struct reply *r, struct engine *g, const struct gen_req *req);

/* A started engine on a directory; options may be NULL. */
struct engine *engine_on(const char *dir, const struct engine_options *o);

/* Parameters that change nothing: greedy, n new tokens, past any end. */
struct gen_params gen_greedy(int64_t n);

#endif
