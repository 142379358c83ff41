/* SPDX-License-Identifier: Apache-2.0
 *
 * One choice of an answer: the engine's tokens on their way to text. Each pull takes the tokens
 * that are new, appends their text, and says how much of it may be shown: all that is certain not
 * to become part of a stop string.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_CHOICE_H
#define SERVER_ANSWER_CHOICE_H

#include "api/reply.h"
#include "engine/serve/answer.h"
#include "engine/token/tokenizer.h"
#include "engine/tools/think_count.h"
#include "engine/tools/think_reader.h"
#include "engine/tools/tool_reader.h"

enum { CHOICE_TEXT_MAX = 256 << 20 };

struct choice {
    struct answer *answer;                /* owned */
    struct detok *detok;                  /* owned; NULL: no tokenizer */
    struct buf text;                      /* what came and was not dropped */
    uint64_t text_at;                     /* bytes dropped before it */
    uint64_t n_echo;                      /* bytes of the prompt that the text begins with */
    size_t n_show;                        /* bytes of `text` that may be shown now */
    struct think_reader *thinks;          /* owned; NULL: its thoughts are not told apart */
    struct tool_reader *reads;            /* owned; NULL: calls are not */
    struct think_count thoughts;          /* tokens of these */
    size_t n_words_told, n_thoughts_told; /* bytes */
    size_t n_tok, n_told;                 /* tokens pulled; of them told to the client */
    size_t n_ready;                       /* of them those that may be told now */
    struct choice_places {                /* owned: in the text, of tokens that were not told yet */
        uint64_t *at;                     /* [n]: the echoed prompt's, then the answer's; bytes */
        size_t n, cap;
        uint64_t n_char; /* characters that were dropped */
        bool is_wanted;
    } places;
    bool goes_on;           /* as text_goes_on in gen.h */
    bool holds_doubtful;    /* tokens wait that may be thoughts or not */
    enum gen_end state;     /* as last pulled */
    bool is_begun, is_over; /* something was told; all was */
};

/* The answer's reference is moved in. goes_on: as text_goes_on in gen.h. */
void choice_init(struct choice *c, struct answer *a, const struct tokenizer *t, bool shows_special,
                 bool goes_on);
/* Before any pull. The text that it begins with; and that it keeps where tokens begin, those of
 * the echoed prompt (at [n], bytes) first. */
int choice_echo(struct choice *c, const char *text, size_t n, struct err *e);
int choice_place(struct choice *c, const uint64_t *at, size_t n, struct err *e);
void choice_release(struct choice *c);

int choice_pull(struct choice *c, struct err *e);

int64_t choice_tokens(const struct choice *c); /* made so far, the one that ended it too */
double choice_mean_logprob(const struct choice *c);

/* Tokens that are ready and were not told, as the renderers take them, n_top of the likeliest each:
 * how many. Without thoughts those are left out that are thoughts. */
size_t choice_logprobs(const struct choice *c, int64_t n_top, bool has_thoughts,
                       struct api_logprob *at);

/* Of a prompt's n tokens, by an answer that has them; the first has none. */
void choice_prompt_logprobs(const struct answer *a, const int32_t *id, size_t n, int64_t n_top,
                            struct api_logprob *at);

/* Where the n entries begin that are told next. */
void choice_offsets(const struct choice *c, struct api_logprob *at, size_t n);

/* What may be shown and what is ready was told. */
void choice_told(struct choice *c);

/* Of one that has ended: all of it is to be told once more. Its words, thoughts and calls are with
 * their readers, where it has any. */
int choice_rewind(struct choice *c, struct err *e);

#endif
