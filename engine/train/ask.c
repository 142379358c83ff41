/* SPDX-License-Identifier: Apache-2.0
 *
 * One small message says what comes.
 */
#include "engine/train/ask.h"

#include "engine/train/state.h"

enum ask_kind { ASK_STATE, ASK_RUN, ASK_END };

struct ask {
    int64_t kind;
    int rc; /* of an end */
    struct err err;
};

static int ask(const struct train_ranks *r, enum ask_kind kind, struct err *e)
{
    struct ask a = {.kind = (int64_t)kind, .err = ERR_INIT};
    return train_broadcast(r, &a, sizeof a, e);
}

int train_ask_state(const struct train_ranks *r, struct err *e)
{
    return ask(r, ASK_STATE, e);
}

int train_ask_run(const struct train_ranks *r, struct err *e)
{
    return ask(r, ASK_RUN, e);
}

int train_ask_end(const struct train_ranks *r, int rc, struct err *e)
{
    struct ask a = {.kind = ASK_END, .rc = rc, .err = ERR_INIT};
    struct err late = ERR_INIT; /* says nothing that *e does not say already */
    if (!r->all)
        return rc;
    if (rc)
        a.err = *e;
    return train_broadcast(r, &a, sizeof a, rc ? &late : e) ? -1 : rc;
}

/* How it ended at rank 0 is rank 0's affair; whether it could be answered is ours. */
static int answer_state(const struct train_ranks *r, struct train_subject *s, struct err *e)
{
    struct train_state state;
    struct err ended = ERR_INIT;
    train_state_begin(&state, &s->tensors, s->stream);
    train_state_end(&state, 0, &ended);
    return comm_check(r->all, e);
}

int train_answer(const struct train_ranks *r, struct train_subject *s, bool *runs, struct err *e)
{
    struct ask a;
    if (runs)
        *runs = false;
    for (;;) {
        if (train_broadcast(r, &a, sizeof a, e))
            return -1;
        if (a.kind == ASK_END)
            return a.rc ? err_set(e, a.err.code, "%s", a.err.msg) : 0;
        if (a.kind == ASK_RUN) {
            ASSERT(runs);
            *runs = true;
            return 0;
        }
        if (answer_state(r, s, e))
            return -1;
    }
}
