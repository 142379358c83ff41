/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-probabilities in the three forms that clients read: a chat's list of tokens with their
 * likeliest rivals, a completion's four parallel lists, and vLLM's list of a prompt.
 *
 * A token's text is its own bytes. Where these are no whole characters (a character may take
 * several tokens), or hold a NUL, they are spelled \xf0\x9f, behind "bytes:" in a completion, so
 * that different tokens have different names; lists of bytes are always exact.
 *
 * A log-probability is written with the digits that read back as the same float. Minus infinity,
 * which JSON has not, is -9999.
 *
 * Thread: any.
 */
#ifndef API_LOGPROBS_H
#define API_LOGPROBS_H

#include "api/jout.h"
#include "engine/serve/answer.h"

/* Appends the bytes that a token stands for. */
struct api_vocab {
    void (*bytes)(void *ctx, int32_t id, struct buf *out);
    void *ctx;      /* borrowed */
    bool names_ids; /* "token_id:5" in the place of texts */
};

struct api_logprob {
    int32_t id;
    float logprob;
    int32_t rank;                 /* of a prompt's token: 1 for the likeliest */
    bool is_unknown;              /* the first token of a prompt has none */
    size_t offset;                /* of completions: where it begins in the text, in characters */
    const struct answer_top *top; /* borrowed */
    int32_t n_top;
};

void api_logprobs_chat(struct jout *j, const struct api_vocab *v, const struct api_logprob *at,
                       size_t n);

/* The same entries alone, as members of a list. */
void api_logprobs_entries(struct jout *j, const struct api_vocab *v, const struct api_logprob *at,
                          size_t n);

void api_logprobs_completion(struct jout *j, const struct api_vocab *v,
                             const struct api_logprob *at, size_t n);

void api_logprobs_prompt(struct jout *j, const struct api_vocab *v, const struct api_logprob *at,
                         size_t n);

#endif
