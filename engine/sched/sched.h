/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens of which sequences the next step holds. Knows tokens, cells and budgets, and nothing
 * of models: what a step computes is the caller's business, so a test can play the model.
 *
 * A step has a budget of tokens, of sequences and of wanted rows. Sequences that decode go first,
 * one token each; what is left is filled with chunks of prompts, by priority and then by age.
 * When cells run out the youngest of the lowest priority gives its cells back, and later computes
 * its text again from its tokens (preemption). A prompt's leading cells may stand already, from
 * another request with the same salt, adapter and tokens (engine/kv).
 *
 *     while (sched_next(s, &step)) {
 *         run it; for each part with an answer: seq_push, seq_finish or seq_pause;
 *         sched_ran(s, us);
 *     }
 *
 * A step is k tokens of a sequence. Behind the one token of a sequence that decodes, guesses of
 * what follows may run as well (drafts): each of their rows has an answer, and seq_push says which
 * of them were right. Keys and values behind those are cut at sched_ran, and nobody finds them.
 *
 * Where a device takes the tokens itself, the next step may be asked for before they are known: a
 * part's token is promised (seq_promise) before sched_ran, which says that the step was given, and
 * pushed once it has come. What is learnt then, an end as well, counts from the sched_ran that
 * comes next. What follows from a token that is not known cannot be guessed: an open sequence has
 * no drafts, and one token a step.
 *
 * Thread: engine only.
 */
#ifndef ENGINE_SCHED_SCHED_H
#define ENGINE_SCHED_SCHED_H

#include <stddef.h>

#include "engine/base/err.h"
#include "engine/sched/seq.h"

struct sched;
struct sched_part;

struct sched_options {
    int64_t n_cell;   /* K/V cells in all */
    int64_t cell_tok; /* tokens in a cell; 0: K_CELL, as the kernels have it */
    int64_t cap_tok;  /* budgets of a step */
    int64_t cap_seq;
    int64_t cap_out;
    int64_t max_wait; /* sequences that may wait for a place; more are refused with ERR_BUSY */
    int64_t chunk;    /* the most prompt tokens beside sequences that decode; 0: by their pace */
    int64_t enough;   /* prompt tokens beyond which no further prompt is begun in a step: it would
                       * gain nothing and keep those before it waiting; 0: no such number */
    int64_t age_tok;  /* tokens run that make up for one level of priority; 0: 64 full steps */
    uint64_t (*hash)(const void *p, size_t n); /* of prefixes; NULL: map_hash */
    int64_t idle_every; /* while others are there, of so many steps one is idle work's; 0: none */
    bool keeps_prefixes;
    bool has_states;    /* of the model: each seat has a recurrent state, and nothing is drafted */
    int64_t n_snapshot; /* states kept for prefixes besides */
    int64_t snapshot_tok; /* tokens between two of a long text, at first; 0: 512 */
    /* Called in sched_next where all of a step decode, and no prompt waits for its turn: may give
     * each of them a draft (seq_draft). Of these as many run as the step has room and the pool free
     * cells. NULL: no drafts. */
    void (*draft)(void *ctx, const struct sched_part *part, int64_t n);
    void *draft_ctx;
};

/* A sequence's share of a step: its tokens [pos, pos + n_tok), the last n_draft of them guessed;
 * answers wanted for the last n_out. */
struct sched_part {
    struct seq *seq; /* borrowed */
    int64_t pos, n_tok, n_out, n_draft;
    int32_t from, to, kept; /* states: what it begins from, what it leaves, and a snapshot of what
                             * it is behind kept_len tokens of the text. -1: none */
    int64_t kept_len;
};

struct sched_step {
    const struct sched_part *part;                   /* sorted by adapter; as long as the step */
    int64_t n_part, n_tok, n_out, n_decode, n_draft; /* decode: sequences; draft: tokens */
    bool is_idle; /* it holds what takes idle time alone: it may be given up for who comes */
    bool is_due;  /* but this one not: it is the one that such work is to have */
};

struct sched_stat {
    int64_t n_running, n_waiting, n_preempted;    /* sequences now */
    int64_t cell_used, cell_kept, cell_all;       /* in tables; kept: only for their prefix */
    uint64_t preempted, prefix_asked, prefix_hit; /* since the start: times; tokens; tokens */
};

/* The most snapshots that a prompt of n_tok tokens leaves, where nobody gave another distance. */
int64_t sched_snapshots_of(int64_t n_tok);

struct sched *sched_new(const struct sched_options *o, struct err *e);
void sched_free(struct sched *s); /* no sequence is in it */

/* The sequence is the scheduler's until it is done or cancelled. ERR_BUSY: the queue is full.
 * ERR_TOO_LARGE: it could never run alone. Group: all or none. */
int sched_submit(struct sched *s, struct seq *const *seq, int64_t n, struct err *e);

/* Gives back all that the sequence holds; between steps only. It is the caller's again. */
void sched_remove(struct sched *s, struct seq *q);

/* Its tokens are others now, from some place on, and n_tok of them: between steps only. It gives
 * its cells back and looks for such a text's, keeps its rank, and is asked for what follows the
 * last. */
void sched_rewrite(struct sched *s, struct seq *q, int64_t n_tok);

/* The next step; false where there is nothing to run, as where all that could are paused. */
bool sched_next(struct sched *s, struct sched_step *step);

/* The step ran: its cells stand, but for those of drafts that were wrong. Each part that ends at
 * n_tok had a token pushed (seq_push), and one more for each draft that was right, or was paused or
 * marked as finished (seq_finish); the finished leave, and are the caller's again. us: how long the
 * step took, from which the pace is learnt; 0: not known. */
void sched_ran(struct sched *s, int64_t us);

/* How long a step took that sched_ran was told of too early to know (us 0). */
void sched_timed(struct sched *s, const struct sched_step *step, int64_t us);

/* The step did not run: nothing of it stands, and its sequences stay, to be run again or removed.
 */
void sched_failed(struct sched *s);

/* Somebody came while this step of idle work was under way, which then ran or was given up
 * (sched_failed): those that follow have half as many rows, and twice as many again for each that
 * runs undisturbed. So little is lost by giving them up, and they get on wherever there is time. */
void sched_hurry(struct sched *s, const struct sched_step *step);

/* No cell is found by its prefix any more: a step that sched_ran was told of has failed. */
void sched_forget_all(struct sched *s);

/* Cells kept for prefixes of this adapter are forgotten: an adapter went away. */
void sched_forget(struct sched *s, uint64_t adapter);

struct sched_stat sched_stat(const struct sched *s);

#endif
