/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalizers: what tokenizer.json does to a text before it is cut into pieces. A chain of steps,
 * each reading a piece and writing a new text, with the spans of the caller's bytes carried along.
 * A step that would change nothing says so, and then nothing is copied.
 *
 * Thread: a chain is immutable; a normalize_run belongs to one thread.
 */
#ifndef ENGINE_TOKEN_NORMALIZE_H
#define ENGINE_TOKEN_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/token/charsmap.h"
#include "engine/token/piece.h"
#include "engine/token/regex.h"

enum normalize_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_STRIP,
    NORMALIZE_PREPEND,
    NORMALIZE_REPLACE,
    NORMALIZE_BYTE_LEVEL,
    NORMALIZE_BERT_CLEAN,   /* control characters out, white space to " " */
    NORMALIZE_BERT_CHINESE, /* spaces around ideographs */
    NORMALIZE_BERT_ACCENTS, /* non-spacing marks out */
    NORMALIZE_NMT,          /* some control characters out, odd white space to " " */
    NORMALIZE_CHARSMAP,
};

struct normalize_step {
    enum normalize_kind kind;
    bool left, right;          /* STRIP */
    char *text;                /* owned: PREPEND; REPLACE: what to look for, unless by regex */
    char *content;             /* owned: REPLACE: what to put */
    struct regex *regex;       /* owned: REPLACE */
    struct charsmap *charsmap; /* owned: CHARSMAP */
};

enum { NORMALIZE_MAX_STEPS = 32 };

struct normalize {
    struct normalize_step step[NORMALIZE_MAX_STEPS];
    size_t n;
};

struct normalize_run {
    struct piece_buf buf[2];
    struct regex_run *regex[NORMALIZE_MAX_STEPS]; /* owned; made when first needed */
};

void normalize_release(struct normalize *c);

/* Appends a step; what the step owns is moved in, also when that fails. */
int normalize_give(struct normalize *c, struct normalize_step *step, struct err *e);

void normalize_run_init(struct normalize_run *r, bool with_spans);
void normalize_run_release(struct normalize_run *r);

/* *out is `in` itself or lies in r until the next call. */
int normalize_apply(const struct normalize *c, struct normalize_run *r, const struct piece *in,
                    struct piece *out, struct err *e);

/* Writes the normal form of `in`; false when `in` is in that form already. kind: NFC to NFKD. */
bool normalize_form(enum normalize_kind kind, const struct piece *in, struct piece_buf *out);

/* The byte-level alphabet: every byte a printable character of one or two bytes. */
uint32_t normalize_byte_char(uint8_t byte);
int normalize_char_byte(uint32_t c); /* -1: not of that alphabet */

#endif
