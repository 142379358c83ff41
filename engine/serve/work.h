/* SPDX-License-Identifier: Apache-2.0
 *
 * One generation as the engine works on it: the sequence that the scheduler sees, what was asked
 * for, and the means to see its end. It is made whole by the thread that submits, in memory for the
 * most that it may become, so that the engine's thread allocates nothing for it.
 *
 * Those that were submitted together are a group, which is notified once for all of them.
 *
 * Thread: one makes it, then the engine's.
 */
#ifndef ENGINE_SERVE_WORK_H
#define ENGINE_SERVE_WORK_H

#include "engine/draft/draft.h"
#include "engine/engine.h"
#include "engine/grammar/matcher.h"
#include "engine/model/model.h"
#include "engine/sample/seen.h"
#include "engine/sample/stop.h"
#include "engine/sched/seq.h"
#include "engine/serve/answer_write.h"
#include "engine/serve/thoughts.h"
#include "engine/token/tokenizer.h"

struct beams;

struct group {
    struct gen_notify notify;
    int64_t n_live;
    bool is_dirty;      /* to be notified at the end of the step */
    struct group *next; /* dirty */
};

struct work {
    struct seq seq; /* its owner is this */
    enum gen_kind kind;
    struct gen_params params; /* what it points to is copied, or not used any more */
    int64_t max_new, n_new;
    int32_t turn;     /* the row of the rotary table at which its positions begin */
    int64_t n_first;  /* tokens of the first type; 0: all are of it */
    int64_t row_from; /* of the step that draws the promised token */
    int n_promised;   /* 1: a token is on its way beyond n_new */
    int n_flight;     /* steps under way that it is in */
    int32_t *end_id;  /* in the block: eos where it counts, and stop ids */
    int32_t n_end_id;
    struct draft draft;       /* without an ngram: no guesses */
    struct matcher *matcher;  /* owned; NULL: any text will do */
    struct thoughts thoughts; /* where a limit of them stands */
    uint32_t *mask;           /* owned: of a row, and of one behind each guess */
    size_t mask_words;        /* of one */
    struct err mask_err;      /* the text cannot go on */
    struct seen *seen;        /* owned; NULL: no penalties */
    int32_t *length;          /* in the block: what DRY works with; NULL: it does not */
    double mu;                /* mirostat's state */
    struct stop *stop;        /* owned; NULL: no stop strings */
    struct detok *detok;      /* owned; NULL likewise */
    struct answer *answer;    /* counted */
    struct adapter *adapter;  /* counted; NULL: the base */
    struct group *group;      /* borrowed: lives until its last work ended */
    struct beams *beams;      /* the search that it is a text of; NULL: none (beams.h) */
    int32_t beam;             /* which of them */
    int64_t submit_us;
    size_t bytes; /* all that it may come to take, its answer included */
    bool has_begun, is_over;
    enum gen_end end;         /* once it is over */
    struct work *prev, *next; /* the engine's list, or the queue before it */
};

/* What making one needs to know of the model. */
struct work_model {
    const struct model *model;
    const int32_t *eos; /* [n_eos] */
    int32_t n_eos;
    int64_t n_vector, n_vocab;         /* numbers of what becomes of a text that is none */
    const struct tokenizer *tokenizer; /* NULL: none */
    struct answer_bell *bell;
    const int32_t *mark; /* [n_mark] special tokens that calls of tools are written with */
    size_t n_mark;
    bool guesses; /* texts are guessed */
};

/* The request was checked, and max_new found. */
struct work *work_new(const struct work_model *m, const struct gen_req *r, int64_t max_new,
                      struct group *g, struct err *e);
void work_free(struct work *w);

bool work_ends_with(const struct work *w, int32_t id);

#endif
