/* SPDX-License-Identifier: Apache-2.0
 *
 * How tokens are chosen, as plain data.
 *
 * Thread: constant once in use.
 */
#ifndef ENGINE_SAMPLE_PARAMS_H
#define ENGINE_SAMPLE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SAMPLE_BIAS_MAX = 1024,
    SAMPLE_TOP_MAX = 20,
    SAMPLE_ALLOW_MAX = 8192,
    SAMPLE_LISTS_MAX = 8192, /* numbers of all lists of one kind */
    SAMPLE_BEAMS_MAX = 16
};

struct sample_bias {
    int32_t id;
    float add;
};

struct sample_params {
    double temperature; /* 0: greedy */
    double top_p;       /* (0, 1]; 1: no cut */
    double min_p;       /* [0, 1]; 0: no cut */
    int64_t top_k;      /* 0: no cut */
    uint64_t seed;
    double repetition;              /* 1: none; of prompt and answer */
    double presence, frequency;     /* 0: none; of the answer */
    const struct sample_bias *bias; /* borrowed: [n_bias] */
    int32_t n_bias;
    /* what few ask for; where any of it is set, tokens are taken on the host */
    double top_n_sigma;                       /* 0 or less: no cut */
    double typical_p;                         /* 0, 1: no cut */
    double xtc_probability, xtc_threshold;    /* 0: never */
    double dynatemp_range, dynatemp_exponent; /* 0: the temperature is what it is */
    double dry_multiplier, dry_base;          /* 0: off (engine/sample/dry.h) */
    int64_t dry_allowed, dry_last;
    const uint32_t *dry_breaks; /* borrowed: bit id % 32 of word id / 32: it breaks; NULL: none */
    const int32_t *dry_breaker; /* borrowed: [n_dry_breaker] a length and so many tokens, ... */
    int32_t n_dry_breaker;
    int64_t mirostat; /* 2: on, and the cuts are not; 0: off */
    double mirostat_tau, mirostat_eta;
    const int32_t *allow; /* borrowed: [n_allow] ascending; none: all may come */
    const int32_t *bad;   /* borrowed: [n_bad] a length and so many tokens, ... */
    int32_t n_allow, n_bad;
};

/* Changes nothing and takes the likeliest: what fields that nobody set stand at. */
#define SAMPLE_PARAMS_INIT                                                                         \
    {                                                                                              \
        .top_p = 1, .repetition = 1                                                                \
    }

/* When a beam search that has found as many texts as it is wide is over: where the best that it
 * follows would not be better if it ended now; at once; where it could not be, whatever follows. */
enum sample_beams_end { BEAMS_HOPEFUL, BEAMS_EARLY, BEAMS_NEVER_EARLY };

struct sample_beams {
    int64_t width; /* 0: a text goes on by itself */
    double length_penalty;
    enum sample_beams_end ends;
};

static inline bool sample_is_dry(const struct sample_params *p)
{
    return p->dry_multiplier > 0 && p->dry_last != 0;
}

#endif
