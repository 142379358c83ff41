/* SPDX-License-Identifier: Apache-2.0
 *
 * How near one model's predictions are to another's, over the tokens of some texts: the perplexity
 * of both, the Kullback-Leibler divergence of the second from the first, and how often their
 * likeliest tokens agree.
 *
 * Thread: one at a time. Both models lie in the host's memory.
 */
#ifndef ENGINE_QUANT_COMPARE_H
#define ENGINE_QUANT_COMPARE_H

#include "engine/model/model.h"
#include "engine/quant/texts.h"

struct quant_compared {
    int64_t n_tok;       /* that were predicted */
    double nll[2];       /* nats a token of each model */
    double kl, kl_worst; /* mean and greatest of the tokens' */
    double agreed;       /* part of tokens whose likeliest guess is the same */
};

int quant_compare(const struct model *first, const struct model *second,
                  const struct quant_texts *texts, struct stream *s, struct quant_compared *out,
                  struct err *e);

#endif
