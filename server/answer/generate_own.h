/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a generation in flight, for generate.c, which begins and steps it, and tell.c,
 * which tells the client what came.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_GENERATE_OWN_H
#define SERVER_ANSWER_GENERATE_OWN_H

#include "api/reply.h"
#include "server/answer/choice.h"
#include "server/answer/constraining.h"
#include "server/answer/generate.h"
#include "server/answer/prompt.h"

enum { OUT_BYTES_MAX = 512 << 20 };

struct generation {
    struct call *call;
    struct admitted at;
    const struct api_request *q;
    const struct prompt *prompt; /* in the arena */
    size_t n_prompt, n_choice;   /* n_choice: best_of for each prompt, neighbours */
    size_t n_asked;              /* n_choice is as many once they are submitted */
    struct choice *choice;       /* in the arena */
    struct answer **answer;      /* in the arena: for the choices */
    struct constraining constraining;
    struct api_reply reply;
    struct detok *spell; /* owned: tokens alone, for log-probabilities */
    struct buf out;
    void *room; /* owned: what is told at once, as the renderers take it */
    size_t room_bytes;
    int64_t submit_us;
    struct err begin_err; /* the first step fails with it */
    bool has_begun, is_over;
};

const struct prompt *generation_prompt(const struct generation *g, const struct choice *c);
struct api_usage generation_usage(const struct generation *g);
void generation_note(struct generation *g); /* it is over: for the log and the metrics */
void generation_fail(struct generation *g, const struct api_error *e);
void generation_fail_err(struct generation *g, const struct err *why);

/* Appends the bytes of one token: struct api_vocab. */
void tell_spell(void *generation, int32_t id, struct buf *out);

void tell_send(struct generation *g);   /* what lies in g->out */
void tell_whole(struct generation *g);  /* every choice ended */
void tell_events(struct generation *g); /* what is new; the end of the stream with the last */

#endif
