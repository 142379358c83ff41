/* SPDX-License-Identifier: Apache-2.0
 *
 * What a loaded tokenizer consists of, for the files of this folder.
 *
 * Thread: any, once loaded.
 */
#ifndef ENGINE_TOKEN_INTERNAL_H
#define ENGINE_TOKEN_INTERNAL_H

#include "engine/load/json.h"
#include "engine/token/added.h"
#include "engine/token/bpe.h"
#include "engine/token/decode.h"
#include "engine/token/normalize.h"
#include "engine/token/pretok.h"
#include "engine/token/tokenizer.h"
#include "engine/token/unigram.h"
#include "engine/token/vocab.h"
#include "engine/token/wordpiece.h"

enum tokenizer_model { MODEL_BPE, MODEL_WORDPIECE, MODEL_WORDLEVEL, MODEL_UNIGRAM };

enum { TOKENIZER_MAX_AFFIX = 16 }; /* tokens before and behind a text */

struct tokenizer_affix {
    int32_t id[TOKENIZER_MAX_AFFIX];
    size_t n;
};

/* How two texts stand in one input. The first `n_between_first` tokens between them are of the
 * first's type, as all are before it. */
struct tokenizer_pair {
    struct tokenizer_affix before, between, after;
    size_t n_between_first;
    bool has_one_type; /* all tokens are of the first's type */
    bool is_made;      /* a post-processor has said so; else the texts follow each other */
    bool is_unknown;   /* what it said is not understood */
};

struct tokenizer {
    struct vocab piece; /* every id as the file spells it, added tokens too */
    struct added added;
    struct normalize normalize;
    struct pretok pretok;
    enum tokenizer_model model;
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
    struct vocab word; /* MODEL_WORDLEVEL */
    struct tokenizer_affix before, after;
    struct tokenizer_pair pair;
    struct decode decode;
    int32_t bos, eos, unk, pad;
};

/* The parts of tokenizer.json; `root` is the file. Each in its own load_*.c. */
int load_added(struct tokenizer *t, const struct json *root, struct err *e);
int load_normalize(struct tokenizer *t, const struct json *root, struct err *e);
int load_pretok(struct tokenizer *t, const struct json *root, struct err *e);
int load_model(struct tokenizer *t, const struct json *root, struct err *e);
int load_unigram(struct tokenizer *t, const struct json *model, struct err *e);
int load_post(struct tokenizer *t, const struct json *root, struct err *e);
/* Of one post-processor, which adds tokens: what it does to two texts. */
void load_pair(struct tokenizer_pair *p, const char *type, const struct json *v);
int load_special(struct tokenizer_affix *a, const struct json *tokens, const struct json *item,
                 struct err *e); /* the ids that a template's special token stands for */
int load_marker(const struct json *v, const char *key, struct tokenizer_affix *a, struct err *e);
int load_decode(struct tokenizer *t, const struct json *root, struct err *e);

/* Shared by them: the type of a component; a string without NUL, of at most 256 bytes; the
 * {"String": ...} or {"Regex": ...} of a pattern: one of *text (owned) and *regex comes back. */
int load_type(const struct json *v, const char **type, struct err *e);
int load_text(const struct json *v, const char *key, char **out, struct err *e);
int load_pattern(const struct json *v, char **text, struct regex **regex, struct err *e);

/* Whether this token of a vocabulary is a special one of several characters, which no model may
 * make of a text. */
bool load_is_special(const struct tokenizer *t, const char *s, size_t len);

#endif
