/* SPDX-License-Identifier: Apache-2.0
 *
 * libtandem: language models in a program of yours, to be asked and to be taught.
 *
 *     struct tandem_error e;
 *     struct tandem_model *m = tandem_open("MODEL", NULL, &e);
 *     if (!m || tandem_generate(m, "Once upon a time", NULL, &answer, &e))
 *         fprintf(stderr, "%s\n", e.text);
 *
 * Functions that can fail return 0, or -1 (tandem_open: NULL) with a struct tandem_error filled,
 * which may be NULL. Options are structs that begin with their size, NULL for all that is chosen by
 * itself: start from their initializer, so that a program that was built with an older header goes
 * on to work with a newer library. Texts are UTF-8.
 *
 * Threads: any number of threads may use a model at once, and what each is told does not depend on
 * the others; tandem_open and tandem_close are one thread's, and one tandem_train at a time is
 * run. Functions that are given to the library are called by the thread that asked, and may not
 * close the model. The library starts threads of its own and no processes, installs no handlers of
 * signals, and writes to stderr only what it is told to by tandem_log. Fork before opening.
 */
#ifndef CLIENTS_LIB_TANDEM_H
#define CLIENTS_LIB_TANDEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TANDEM_API __attribute__((visibility("default")))

TANDEM_API const char *tandem_version(void); /* "0.1.0", of the library that is linked */

enum tandem_fault {
    TANDEM_GOOD,
    TANDEM_BAD_INPUT, /* what was asked cannot be: the text says what, the limit, and the mend */
    TANDEM_BUSY,      /* try again later */
    TANDEM_FAILED     /* a file, the memory or a device failed */
};

struct tandem_error {
    int32_t fault;  /* enum tandem_fault */
    char text[508]; /* one line, always terminated */
};

/* What the library has to say by itself, a line each with its newline; NULL: nobody is told, as at
 * first. By any thread, and by several at once, also while it is changed. */
TANDEM_API void tandem_log(void (*line)(void *ctx, const char *line, size_t n), void *ctx);

/* ---- models -------------------------------------------------------------------------------- */

struct tandem_model;

struct tandem_open_options {
    size_t size;
    const char *device;   /* "auto", "cpu", "cuda" */
    const char *quantize; /* "none" (as stored), "int8", "int4", ...: what weights are packed to */
    int64_t ctx;          /* positions to make room for; 0: what the model was made for */
    int64_t threads;      /* that compute; 0: one for each CPU */
    int64_t max_adapters; /* that may be loaded at once; 0: 8 */
    int64_t kv_bytes;     /* for keys and values; 0: chosen */
};
#define TANDEM_OPEN_OPTIONS                                                                        \
    {                                                                                              \
        sizeof(struct tandem_open_options), NULL, NULL, 0, 0, 0, 0                                 \
    }

/* A directory in Hugging Face's layout, or a GGUF file. */
TANDEM_API struct tandem_model *tandem_open(const char *path, const struct tandem_open_options *o,
                                            struct tandem_error *e);

/* What still runs in other threads ends with TANDEM_BUSY, and is waited for; nothing may begin any
 * more. NULL is fine. */
TANDEM_API void tandem_close(struct tandem_model *m);

TANDEM_API int64_t tandem_context(const struct tandem_model *m); /* positions */
TANDEM_API int64_t tandem_width(const struct tandem_model *m);   /* numbers of an embedding */

/* ---- texts --------------------------------------------------------------------------------- */

/* What is new of an answer, whole characters, as it comes; not 0: it is to end here. */
typedef int tandem_text_fn(void *ctx, const char *text, size_t n);

struct tandem_generate_options {
    size_t size;
    int64_t max_tokens; /* 0: what the context leaves */
    double temperature; /* below 0: the model's own, 1 where it has none; 0: the likeliest */
    double top_p;       /* below 0: the model's own, 1 where it has none */
    int64_t top_k;      /* below 0: the model's own; 0: all */
    double min_p;       /* 0: no cut */
    uint64_t seed;      /* the same seed gives the same text */
    const char *const *stop;
    size_t n_stop;       /* texts that end an answer, and are no part of it */
    const char *adapter; /* by its name; NULL: the model without one */
    tandem_text_fn *text;
    void *ctx;
};
#define TANDEM_GENERATE_OPTIONS                                                                    \
    {                                                                                              \
        sizeof(struct tandem_generate_options), 0, -1, -1, -1, 0, 0, NULL, 0, NULL, NULL, NULL     \
    }

enum tandem_end { TANDEM_END_STOP = 1, TANDEM_END_LENGTH, TANDEM_END_ASKED };

struct tandem_answer {
    char *text; /* tandem_answer_release */
    size_t n;   /* bytes; a 0 stands behind them */
    int64_t prompt_tokens, new_tokens;
    int32_t end; /* enum tandem_end: by itself, by max_tokens, by the text function */
};

/* Goes on from a text. Special tokens in it are special. */
TANDEM_API int tandem_generate(struct tandem_model *m, const char *prompt,
                               const struct tandem_generate_options *o, struct tandem_answer *out,
                               struct tandem_error *e);

/* Answers a conversation, by the model's own template: a JSON list of messages as OpenAI's API has
 * them, [{"role": "user", "content": "Hello"}]. */
TANDEM_API int tandem_chat(struct tandem_model *m, const char *messages,
                           const struct tandem_generate_options *o, struct tandem_answer *out,
                           struct tandem_error *e);

TANDEM_API void tandem_answer_release(struct tandem_answer *a);

/* The vector of a text: tandem_width numbers. Of models that were made for it: behind the prompt
 * that is usual with the model, and cut to the length that its files say. */
TANDEM_API int tandem_embed(struct tandem_model *m, const char *text, float *vector,
                            struct tandem_error *e);

/* ---- adapters ------------------------------------------------------------------------------ */

/* A PEFT directory under a name; a name that is there already gets a new version, and answers under
 * way end on the one they began with. */
TANDEM_API int tandem_adapter_load(struct tandem_model *m, const char *name, const char *dir,
                                   struct tandem_error *e);
TANDEM_API int tandem_adapter_drop(struct tandem_model *m, const char *name,
                                   struct tandem_error *e);

/* ---- training ------------------------------------------------------------------------------ */

struct tandem_train_step {
    int64_t step, n_step; /* done; in all */
    double loss;
    double valid_loss; /* below 0: not measured behind this step */
};

struct tandem_train_options {
    size_t size;
    const char *validation; /* a file of rows; NULL: none */
    int64_t epochs;         /* 0: 3 */
    int64_t batch;          /* rows of a step; 0: 4 */
    int64_t rank;           /* of the adapter; 0: 16 */
    double alpha;           /* 0: twice the rank */
    double learning_rate;   /* 0: 2e-4 */
    int64_t max_length;     /* tokens of a row, longer ones are cut; 0: the context */
    uint64_t seed;
    int (*step)(void *ctx, const struct tandem_train_step *s); /* not 0: it is to end here */
    void *ctx;
};
#define TANDEM_TRAIN_OPTIONS                                                                       \
    {                                                                                              \
        sizeof(struct tandem_train_options), NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL                 \
    }

/* Trains an adapter on a file of rows (JSON lines of "messages", or "prompt" and "completion"), on
 * the weights that answer meanwhile, and writes it as a PEFT directory `out`, which is not there
 * yet. Where a step said to end, nothing is written, and it is no error. */
TANDEM_API int tandem_train(struct tandem_model *m, const char *file, const char *out,
                            const struct tandem_train_options *o, struct tandem_error *e);

#ifdef __cplusplus
}
#endif

#endif
