/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that become numbers: vectors, scores, labels. All of a request are submitted in one piece,
 * and answered together when the last is there.
 *
 * A client that goes away cancels all of them. The engine's notifications hold a reference to the
 * call, so what they look at outlives them.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_VECTORS_H
#define SERVER_ANSWER_VECTORS_H

#include "api/jout.h"
#include "server/answer/generate.h"
#include "server/answer/prompt.h"

struct vectors {
    struct call *call;
    struct admitted at;
    const struct prompt *prompt; /* [n], in the arena */
    struct answer **answer;      /* [n], in the arena; references owned */
    size_t n;
    int64_t submit_us;
    bool is_over;
    void (*write)(const struct vectors *v, struct jout *j); /* the answer, of all that came */
};

/* Asks the engine for prompt[n] and answers the call, now where that fails, else later. field: the
 * request's that errors name. */
void vectors_ask(struct vectors *v, enum gen_kind kind, const char *field);

/* Numbers of text i, once they are there. */
const float *vectors_at(const struct vectors *v, size_t i, size_t *n);
int64_t vectors_tokens(const struct vectors *v);

#endif
