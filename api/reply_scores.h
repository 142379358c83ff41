/* SPDX-License-Identifier: Apache-2.0
 *
 * What texts are worth, as clients read it: documents in order (Jina's and Cohere's form), scores
 * of pairs and labels of texts (vLLM's).
 *
 * Thread: any.
 */
#ifndef API_REPLY_SCORES_H
#define API_REPLY_SCORES_H

#include "api/jout.h"
#include "api/request.h"

/* What all three begin with. */
struct api_scored {
    const char *id, *model;
    int64_t created, n_tok;
};

struct api_rank {
    size_t index; /* of the document in the request */
    double score;
};

/* document: the request's, which are shown; NULL: none is. */
void api_ranks_write(struct jout *j, const struct api_scored *of, const struct api_rank *rank,
                     size_t n, const struct api_input *document);
void api_scores_write(struct jout *j, const struct api_scored *of, const double *score, size_t n);
/* probs: [n, n_label]. */
void api_classes_write(struct jout *j, const struct api_scored *of, const double *probs, size_t n,
                       const char *const *label, size_t n_label);

#endif
