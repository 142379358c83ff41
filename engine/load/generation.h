/* SPDX-License-Identifier: Apache-2.0
 *
 * generation_config.json: the sampling that a model's makers advise, and the ids that end a text.
 * All of it is advice: a request's own parameters come first. What would change an answer and is
 * not obeyed is named, for whoever opens the model to tell.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_GENERATION_H
#define ENGINE_LOAD_GENERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/load/config.h"

enum { GENERATION_NAMES_MAX = 256 };

struct generation {
    int32_t bos, pad; /* -1: none */
    int32_t eos[CONFIG_EOS_MAX], n_eos;
    bool do_sample; /* false: greedy unless the request says otherwise */
    double temperature, top_p, min_p, typical_p, repetition_penalty;
    int64_t top_k;                      /* 0: all */
    char ignored[GENERATION_NAMES_MAX]; /* "num_beams, stop_strings"; "": nothing */
};

/* What holds without the file: greedy, the ids of config.json. */
void generation_default(struct generation *g, const struct config *c);

/* Over what generation_default set. */
int generation_read(struct generation *g, const char *path, struct err *e);
int generation_parse(struct generation *g, const char *text, size_t len, struct err *e);

#endif
