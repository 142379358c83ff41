/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike two texts are, from 0 to 1, by the measures that OpenAI's graders name and as the
 * packages compute them that people know these by:
 *
 *     fuzzy_match  rapidfuzz's fuzz.ratio / 100: 1 - insertions and deletions / both lengths
 *     bleu         sacrebleu's sentence_bleu / 100 of words between spaces, with effective order
 *     gleu         nltk's sentence_gleu of words between spaces
 *     rouge_1..5   rouge_score's F1 of words in lower case without marks; here letters beyond ASCII
 *     rouge_l      are letters
 *
 * fuzzy_match and rouge_l take a time of both lengths' product, which has a bound: ERR_TOO_LARGE.
 *
 * Thread: any.
 */
#ifndef API_SIMILARITY_H
#define API_SIMILARITY_H

#include <stddef.h>

#include "engine/base/arena.h"

/* rouge_1 to rouge_5 follow each other. */
enum similarity {
    SIMILARITY_FUZZY,
    SIMILARITY_BLEU,
    SIMILARITY_GLEU,
    SIMILARITY_ROUGE_1,
    SIMILARITY_ROUGE_5 = SIMILARITY_ROUGE_1 + 4,
    SIMILARITY_ROUGE_L,
    SIMILARITY_COUNT
};

const char *similarity_name(enum similarity s);

struct similarity_text {
    const char *p; /* UTF-8 */
    size_t n;
};

int similarity_of(enum similarity s, struct similarity_text text, struct similarity_text reference,
                  struct arena *a, double *out, struct err *e);

#endif
