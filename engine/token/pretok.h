/* SPDX-License-Identifier: Apache-2.0
 *
 * Pre-tokenizers: a chain of steps that cut a text into the pieces that the model sees one by
 * one. The pieces are not collected: each step hands its pieces to the next as it finds them, and
 * the last one hands them to the model, so a long text takes no memory here unless a step
 * rewrites it (Metaspace; a ByteLevel whose alphabet the model cannot undo).
 *
 * Thread: a chain is immutable; a pretok_run belongs to one thread.
 */
#ifndef ENGINE_TOKEN_PRETOK_H
#define ENGINE_TOKEN_PRETOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/token/piece.h"
#include "engine/token/regex.h"
#include "engine/token/split.h"
#include "engine/token/uclass.h"

enum pretok_kind {
    PRETOK_RULES,        /* a hand-written splitter */
    PRETOK_REGEX,        /* Split with a regex */
    PRETOK_TEXT,         /* Split with a string, CharDelimiterSplit */
    PRETOK_CLASS,        /* every character of a class is a match: Digits, Punctuation, ... */
    PRETOK_METASPACE,    /* spaces to marks, and a mark in front */
    PRETOK_PREFIX_SPACE, /* ByteLevel's add_prefix_space */
    PRETOK_BYTES,        /* bytes to the byte-level alphabet */
};

/* What becomes of a match, and of what lies between matches. */
enum pretok_behavior {
    PRETOK_ISOLATED,
    PRETOK_REMOVED,
    PRETOK_MERGED_WITH_PREVIOUS,
    PRETOK_MERGED_WITH_NEXT,
    PRETOK_CONTIGUOUS, /* neighbours of one kind make one piece */
};

enum pretok_prepend { PRETOK_PREPEND_NEVER, PRETOK_PREPEND_FIRST, PRETOK_PREPEND_ALWAYS };

struct pretok_step {
    enum pretok_kind kind;
    enum pretok_behavior behavior;
    enum pretok_prepend prepend;     /* METASPACE */
    bool invert;                     /* matches and what lies between change places */
    bool is_split;                   /* METASPACE: cut before each mark */
    unsigned mask;                   /* CLASS */
    const struct split_rules *rules; /* RULES */
    char *text;                      /* owned: TEXT, METASPACE: the mark */
    struct regex *regex;             /* owned: REGEX */
};

enum { PRETOK_MAX_STEPS = 24 };

struct pretok {
    struct pretok_step step[PRETOK_MAX_STEPS];
    size_t n;
    struct uclass *class; /* owned: what the steps need */
};

struct pretok_run {
    struct piece_buf buf[PRETOK_MAX_STEPS];
    struct regex_run *regex[PRETOK_MAX_STEPS]; /* owned; made when first needed */
};

void pretok_release(struct pretok *c);

/* Appends a step; what the step owns is moved in, also when that fails. */
int pretok_give(struct pretok *c, struct pretok_step *step, struct err *e);

void pretok_run_init(struct pretok_run *r, bool with_spans);
void pretok_run_release(struct pretok_run *r);

/* Whether a step puts something in front of pieces that an earlier step has cut. */
bool pretok_marks_pieces(const struct pretok *c);

/* Calls fn for each piece that is not empty, in order. Non-zero from fn ends it with that. */
typedef int pretok_fn(void *ctx, const struct piece *p, struct err *e);
int pretok_apply(const struct pretok *c, struct pretok_run *r, const struct piece *in,
                 pretok_fn *fn, void *ctx, struct err *e);

#endif
