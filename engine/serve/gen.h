/* SPDX-License-Identifier: Apache-2.0
 *
 * What a generation is asked for, as plain data: api/ fills it from JSON, the engine reads it.
 *
 * Thread: constant once submitted.
 */
#ifndef ENGINE_SERVE_GEN_H
#define ENGINE_SERVE_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/sample/params.h"

enum { GEN_STOP_MAX = 16, GEN_STOP_BYTES_MAX = 1024, GEN_STOP_ID_MAX = 128, GEN_TOP_MAX = 20 };

enum gen_kind { GEN_TEXT, GEN_EMBED };

struct gen_text {
    const char *p; /* borrowed */
    uint32_t n;
};

struct gen_params {
    struct sample_params sample;
    int64_t max_new; /* -1: what the context leaves */
    int64_t min_new;
    struct gen_text stop[GEN_STOP_MAX];
    int32_t n_stop;
    const int32_t *stop_id; /* borrowed */
    int32_t n_stop_id;
    bool ignore_eos;
    bool stop_is_shown; /* the text of the stop string stays in the answer */
    bool special_shown; /* special tokens stay in the text */
    bool text_goes_on;  /* the text goes on from the prompt's: a space at its beginning stays */
    bool wants_logprob; /* of each token that was taken */
    int32_t n_top;      /* and of so many likeliest */
    bool wants_prompt;  /* the same for the prompt's tokens */
};

/* Why a generation ended. */
enum gen_end { GEN_RUNS, GEN_STOPPED, GEN_LENGTH, GEN_CANCELLED, GEN_FAILED };

#endif
