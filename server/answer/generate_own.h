/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a generation in flight, for generate.c, which has its steps in their order, and
 * the files that have the details: submit.c, tell.c, end.c.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_GENERATE_OWN_H
#define SERVER_ANSWER_GENERATE_OWN_H

#include "api/face.h"
#include "server/answer/calling.h"
#include "server/answer/choice.h"
#include "server/answer/constraining.h"
#include "server/answer/fetching.h"
#include "server/answer/generate.h"
#include "server/answer/keeping.h"
#include "server/answer/prompt.h"
#include "server/answer/thinking.h"

enum { OUT_BYTES_MAX = 512 << 20 };

struct generation {
    struct call *call;
    struct admitted at;
    const struct api_request *q;
    const struct prompt *prompt; /* in the arena */
    size_t n_prompt, n_choice;   /* n_choice: best_of for each prompt, neighbours */
    size_t n_asked;              /* n_choice is as many once they are submitted */
    size_t n_ended;              /* of them, when they were last collected */
    struct choice *choice;       /* in the arena */
    struct answer **answer;      /* in the arena: for the choices */
    struct calling calling;
    struct constraining constraining;
    struct fetching fetching;
    struct keeping keeping;
    struct api_reply reply;
    struct detok *spell; /* owned: tokens alone, for log-probabilities */
    struct buf out;
    void *room; /* owned: what is told at once, as the renderers take it */
    size_t room_bytes;
    int64_t submit_us;
    struct err begin_err; /* of what its choices begin with: the first step fails with it */
    bool is_submitted, is_over;
    bool has_begun; /* its stream has its first events */
};

const struct prompt *generation_prompt(const struct generation *g, const struct choice *c);

/* ---- submit.c ---- */

/* Once the constraint, if there is one, is compiled, and the adapter there. */
int generation_submit(struct generation *g, struct api_error *e);

/* ---- end.c ---- */
struct api_usage generation_usage(const struct generation *g);
void generation_note(struct generation *g); /* it is over: for the log and the metrics */
void generation_cancel(struct generation *g);

/* Nothing more can be said: as a status, or as the last event of a stream that has begun. */
void generation_fail(struct generation *g, const struct api_error *e);
void generation_fail_err(struct generation *g, const struct err *why);

/* The last event of a stream that cannot go on. */
void generation_error(void *generation, const struct api_error *e, struct buf *out);

/* True where a choice ended other than by its own end: the client was told that. */
bool generation_has_failed(struct generation *g);

/* ---- tell.c ---- */

/* Appends the bytes of one token: struct api_vocab. */
void tell_spell(void *generation, int32_t id, struct buf *out);

void tell_send(struct generation *g);    /* what lies in g->out */
void tell_whole(struct generation *g);   /* every choice ended */
void tell_events(struct generation *g);  /* what is new; the end of the stream with the last */
void tell_kept(struct generation *g);    /* what waited until the answer was kept */
void tell_nothing(struct generation *g); /* nothing was asked: the model is there */

#endif
