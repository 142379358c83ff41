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

struct grammar_calls;
struct jvalue;
struct masks;

enum { GEN_STOP_MAX = 16, GEN_STOP_BYTES_MAX = 1024, GEN_STOP_ID_MAX = 128, GEN_TOP_MAX = 20 };

/* A text that goes on; a text's vector; the numbers of a classifier's labels for a text or a pair.
 */
enum gen_kind { GEN_TEXT, GEN_EMBED, GEN_CLASSIFY };

struct gen_text {
    const char *p; /* borrowed */
    uint32_t n;
};

/* What a text must be (engine/grammar), as it was asked for. */
enum constraint_kind {
    CONSTRAINT_NONE,
    CONSTRAINT_OBJECT, /* any JSON object */
    CONSTRAINT_SCHEMA,
    CONSTRAINT_REGEX,
    CONSTRAINT_CHOICE,
    CONSTRAINT_GBNF,
    CONSTRAINT_CALLS /* text with calls of tools (engine/tools) */
};

struct constraint {
    enum constraint_kind kind;
    bool is_compact;             /* JSON without white space */
    const char *field;           /* the request's, for errors */
    struct gen_text text;        /* the schema, regex, grammar or the choices, as they came */
    const struct jvalue *schema; /* borrowed for the compiling */
    const struct gen_text *choice;
    int32_t n_choice;
    const struct grammar_calls *calls; /* borrowed for the compiling */
    const char *open, *close;          /* of thoughts that may stand before it; NULL: none may */
    const char *say;                   /* stands between these and it; NULL: nothing does */
    bool is_open;                      /* they have begun */
};

/* A limit of thoughts: at `most` tokens they end. */
struct gen_thoughts {
    bool is_limited;
    bool is_open; /* the prompt has begun them; else the text may */
    int64_t most;
    int32_t open, close; /* their marks, which are tokens */
};

struct gen_params {
    struct sample_params sample;
    struct sample_beams beams; /* each of its texts is a request, behind each other; their answers
                                * are what was found, best first, and come all at once */
    struct masks *masks;       /* borrowed: engine_constraint's; NULL: any text */
    int64_t max_new;           /* -1: what the context leaves */
    int64_t min_new;
    struct gen_thoughts thoughts;
    struct gen_text stop[GEN_STOP_MAX];
    int32_t n_stop;
    const int32_t *stop_id; /* borrowed */
    int32_t n_stop_id;
    bool ignore_eos;
    bool stop_is_shown; /* the text of the stop string stays in the answer */
    bool special_shown; /* special tokens stay in the text */
    bool marks_shown;   /* those stay that calls of tools and thoughts are written with */
    bool text_goes_on;  /* the text goes on from the prompt's: a space at its beginning stays */
    bool wants_logprob; /* of each token that was taken */
    int32_t n_top;      /* and of so many likeliest */
    bool wants_prompt;  /* the same for the prompt's tokens */
    bool wants_ranks;   /* and how many are likelier than each of these */
};

/* Why a generation ended. */
enum gen_end { GEN_RUNS, GEN_STOPPED, GEN_LENGTH, GEN_CANCELLED, GEN_FAILED };

#endif
