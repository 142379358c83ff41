/* SPDX-License-Identifier: Apache-2.0
 *
 * One timeline of tokens: a prompt and what was added to it.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_SCHED_SEQ_H
#define ENGINE_SCHED_SEQ_H

#include <stdbool.h>
#include <stdint.h>

enum seq_state { SEQ_NEW, SEQ_WAITING, SEQ_RUNNING, SEQ_PREEMPTED, SEQ_DONE };

struct seq {
    /* what the maker says */
    int32_t *token;    /* owned by the maker: [n_max] */
    int64_t n_prompt;  /* at least 1 */
    int64_t n_max;     /* the prompt and all that may be added: cells for it are never refused */
    int32_t priority;  /* lower goes first */
    uint64_t salt;     /* of the tenant: prefixes are shared under equal salts only */
    uint64_t tenant;   /* who asks: tenants share the steps by weight */
    int64_t weight;    /* the tenant's, as last said; 0: 1 */
    uint64_t adapter;  /* id of the adapter's version; 0: none */
    bool wants_prompt; /* answers for the prompt's positions too: takes no prefix */
    bool is_whole;     /* the prompt must run in one step, and keeps no cells (an encoder) */
    bool is_idle;      /* runs where nobody else wants to */
    bool forks;        /* others may go on from any of its cells: states are kept for them */
    void *owner;       /* borrowed: the maker's own */

    /* what the scheduler and seq_push keep */
    enum seq_state state;
    int64_t n_tok;       /* prompt and added so far */
    int64_t n_stand;     /* tokens whose keys and values stand */
    int64_t n_cached;    /* of the prompt, found standing when it first ran */
    bool is_finished;    /* seq_finish was called */
    bool is_open;        /* its last token is one that nobody knows yet (seq_promise) */
    bool is_paused;      /* nobody says yet what follows its last token (seq_pause) */
    int64_t n_draft;     /* tokens behind n_tok that are guessed (seq_draft) */
    int64_t n_agreed;    /* of those that this step runs, the leading ones that were right */
    uint64_t age;        /* order of submission */
    const int32_t *cell; /* borrowed: places of its cells, valid for the step */
    int64_t n_cell;
    struct seq_node *node; /* owned by the scheduler */
};

/* One more token is known; at most to n_max. Where it was promised it fills its place. Where one
 * was drafted the draft stands if it is this one; if not, it is cut with all drafts behind it. */
void seq_push(struct seq *q, int32_t token);
void seq_promise(struct seq *q); /* one more, which is on its way: it may run, not be seated */
void seq_finish(struct seq *q);  /* leaves at the end of the step */

/* Its answer was given, and what follows is known later: it stands still, with all that it holds,
 * until a token is pushed or it is rewritten. */
void seq_pause(struct seq *q);

/* token[n_tok, n_tok + n) are guesses, to run in this step behind what is known; less than to
 * n_max. Of a sequence that is not open. */
void seq_draft(struct seq *q, int64_t n);

#endif
