/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to token ids and back, as a model's tokenizer.json (Hugging Face tokenizers format)
 * defines it. The file is compiled once into flat tables; an unsupported part of it is an error
 * that names the part, never a silent approximation.
 *
 * Special tokens: a text comes as segments, and only a segment that says so (`is_trusted`: text
 * of the template, not of a user) may contain special tokens. Everything else about the text is
 * decided on the segments joined, so that ordinary text gives the same ids however it is cut, and
 * the same as the reference gives for the whole.
 *
 * Bytes that are not UTF-8 are read as U+FFFD, cut as Python's errors="replace" cuts them. Spans
 * always speak of the caller's own bytes (of all segments joined).
 *
 * Cost: linear in the text for every text; see README.md. Truncation and padding that a file may
 * ask for are not done here: ceilings are the caller's, in tok_list_init.
 *
 * Thread: a loaded tokenizer is immutable and may be used by any number of threads at once. A
 * tok_list and a detok belong to one thread.
 */
#ifndef ENGINE_TOKEN_TOKENIZER_H
#define ENGINE_TOKEN_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

#define TOKENIZER_MAX_TEXT (1u << 30) /* bytes of one call */

struct tokenizer;

/* Which bytes of the caller's text a token stands for: [lo, hi). */
struct tok_span {
    uint32_t lo, hi;
};

/* Ids, and with them their spans when wanted. Grows up to `max` tokens. */
struct tok_list {
    int32_t *id;           /* owned */
    struct tok_span *span; /* owned; NULL unless with_spans */
    size_t n, cap, max;
    bool with_spans;
};

struct tok_segment {
    const char *text; /* borrowed */
    size_t len;
    bool is_trusted; /* special tokens in it are special tokens */
};

/* tokenizer.json of a model's directory; tokenizer_config.json and special_tokens_map.json, when
 * they are there, say which tokens begin and end a text. Or a GGUF file's tokenizer. */
struct tokenizer *tokenizer_load(const char *dir, struct err *e);
struct tokenizer *tokenizer_parse(const char *json, size_t len, struct err *e);
void tokenizer_free(struct tokenizer *t);

void tok_list_init(struct tok_list *l, size_t max, bool with_spans);
void tok_list_release(struct tok_list *l);

/* Appends the tokens of the text to `out`. add_special: also what the model wants before and
 * after a text (BOS and the like). More than out->max tokens: ERR_TOO_LARGE. After an error the
 * list is as it was before the call. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool is_trusted,
                     bool add_special, struct tok_list *out, struct err *e);
int tokenizer_encode_segments(const struct tokenizer *t, const struct tok_segment *seg,
                              size_t n_seg, bool add_special, struct tok_list *out, struct err *e);

/* ---- two texts in one input, as the model's files put them together ---- */

struct tok_run {
    const int32_t *id; /* borrowed: of a text without what add_special adds */
    size_t n;
};

/* ERR_UNSUPPORTED: how is not understood, and nothing else here may be called. */
int tokenizer_pair_check(const struct tokenizer *t, struct err *e);
size_t tokenizer_pair_added(const struct tokenizer *t); /* tokens besides the texts' */
/* To how many tokens each is cut, from its end, so that all are at most `most`. */
void tokenizer_pair_cut(const struct tokenizer *t, size_t most, size_t *n_first, size_t *n_second);
/* Writes n of both and tokenizer_pair_added ids; how many of them are of the first's type, which
 * come first. */
size_t tokenizer_pair_put(const struct tokenizer *t, const struct tok_run *first,
                          const struct tok_run *second, int32_t *out);

/* Of what add_special adds, how many tokens stand behind the text. */
size_t tokenizer_n_after(const struct tokenizer *t);

/* Leaves `most` tokens of a text (0: all): it loses its end, but not what add_special, where it was
 * asked for, put behind it. */
void tokenizer_cut(const struct tokenizer *t, struct tok_list *l, size_t most, bool has_special);

/* Whether these tokens of a prompt have a text that an answer goes on from: behind BOS and the like
 * alone a text begins. */
bool tokenizer_has_text(const struct tokenizer *t, const int32_t *id, size_t n);

/* Appends the tokens of a text that goes on from the text `before`, which is not touched: what a
 * model with the tokens of `before` as its prompt has to answer for them to read on as the text.
 * Nothing is put in front of it, and a word that goes on from `before` goes on here. Spans speak of
 * the text alone. */
int tokenizer_encode_after(const struct tokenizer *t, const struct tok_segment *before,
                           const struct tok_segment *seg, size_t n_seg, struct tok_list *out,
                           struct err *e);

/* The text of the ids, appended to `out`, always valid UTF-8. An id out of range is an error. */
int tokenizer_decode(const struct tokenizer *t, const int32_t *id, size_t n, bool skip_special,
                     struct buf *out, struct err *e);

/* Ids go from 0 to size - 1; some may be without a token. */
size_t tokenizer_size(const struct tokenizer *t);
/* The token as the file spells it ("\u0120the"), terminated; NULL when there is none. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len);
int32_t tokenizer_id(const struct tokenizer *t, const char *piece, size_t len); /* or -1 */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);

/* -1 where the model's files name none. */
int32_t tokenizer_bos(const struct tokenizer *t);
int32_t tokenizer_eos(const struct tokenizer *t);
int32_t tokenizer_unk(const struct tokenizer *t);
int32_t tokenizer_pad(const struct tokenizer *t);

/* Ids to text, token by token. Each push appends to `out` what is certain now: whole characters
 * only. detok_finish appends what was held back. All of it joined is what tokenizer_decode gives
 * for all the ids. */
struct detok;

struct detok *detok_new(const struct tokenizer *t, bool skip_special); /* t is borrowed */
void detok_free(struct detok *d);
void detok_reset(struct detok *d); /* as new */
/* These special tokens are shown though others are not; borrowed. */
void detok_show(struct detok *d, const int32_t *id, size_t n);
void detok_inside(
    struct detok *d); /* of a new one: what comes is no beginning and keeps its space */
int detok_push(struct detok *d, int32_t id, struct buf *out, struct err *e);

/* Where in `out` the text of the token that was pushed last begins, or will. One that begins inside
 * of a character begins with it. */
size_t detok_begin(const struct detok *d);
int detok_finish(struct detok *d, struct buf *out, struct err *e);

/* The bytes that one token stands for inside of a text, special or not; they may be a part of a
 * character. The detok is as new afterwards. */
int detok_bytes(struct detok *d, int32_t id, struct buf *out, struct err *e);

#endif
