/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that run a model in this process have in common: the threads, the device, the
 * directory, the parameters, and the line that says how far loading is.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_LOCAL_LOAD_H
#define CLIENTS_LOCAL_LOAD_H

#include "clients/cli/cmd.h"
#include "engine/engine.h"
#include "engine/run/crew.h"
#include "engine/serve/resident.h"

/* The values behind LOCAL_MODEL_ROWS: the first member of a command's struct. */
struct local_options {
    int64_t threads, ctx;
    const char *device, *kernels, *quantize, *kv_type, *config;
    const char *weights; /* only where a command has LOCAL_WEIGHTS_ROW */
    int64_t tp;          /* ranks that share the model; only where a command has a row for it */
    bool text_only;      /* the model's texts, no weights: ranks load their parts themselves */
    struct comm *group;  /* moved in by local_load: of processes that share it; NULL: none */
};

#define LOCAL_ROW(section_, name_, type_, fallback_, min_, max_, hint_, help_, field_)             \
    {                                                                                              \
        .section = (section_), .name = (name_), .type = (type_), .fallback = (fallback_),          \
        .min = (min_), .max = (max_), .hint = (hint_), .help = (help_),                            \
        .offset = offsetof(struct local_options, field_)                                           \
    }

/* Rows that every command with a model begins with. */
#define LOCAL_MODEL_ROWS                                                                           \
    LOCAL_ROW("Model", "ctx", OPT_SIZE, "0", 0, 1 << 30, "N",                                      \
              "positions to make room for; 0: what the model was made for", ctx),                  \
        LOCAL_ROW(NULL, "quantize", OPT_CHOICE, "none", 0, 0, "none|int8|bf16|f32",                \
                  "format that weights are packed to; none: as they are stored", quantize),        \
        LOCAL_ROW(NULL, "kv-type", OPT_CHOICE, "auto", 0, 0, "auto|bf16|f32",                      \
                  "format of keys and values; auto: f32 under f32 weights, else bf16", kv_type),   \
        LOCAL_ROW("Machine", "threads", OPT_INT, "0", 0, 1024, "N",                                \
                  "compute threads; 0: one for each CPU", threads),                                \
        LOCAL_ROW(NULL, "device", OPT_CHOICE, "auto", 0, 0, "auto|cpu|cuda",                       \
                  "where the model runs; auto: on a GPU where there is one", device),              \
        LOCAL_ROW(NULL, "kernels", OPT_CHOICE, "auto", 0, 0, "auto|ref|avx2|avx512|avx512_bf16",   \
                  "the highest instruction set that kernels may use", kernels)

#define LOCAL_WEIGHTS_ROW                                                                          \
    LOCAL_ROW(NULL, "weights", OPT_CHOICE, "stored", 0, 0, "stored|random",                        \
              "random: drawn, not read, for a model too large for its files", weights)

/* Options of the model as the engine takes them. */
struct model_options local_model_options(const struct local_options *o);

/* Opens and loads MODEL, with its tokenizer where that is wanted; after a failure, too,
 * resident_release. */
int local_load(struct resident *r, const char *path, const struct local_options *o, bool wants_text,
               struct err *e);

/* Where this process is one of several that a launcher started: its end of their group, else NULL.
 * deadline_ms: of each wait; 0: comm's own. */
int local_group(int64_t deadline_ms, struct comm **c, struct err *e);

/* The life of one that is not rank 0, whose end is freed: follows until rank 0 is done. work:
 * beside that, when rank 0 calls; NULL: nothing. */
int local_follow(const char *path, const struct local_options *o, struct comm *c,
                 crew_work_fn *work, struct err *e);

/* An engine on MODEL that has not started; `with` holds what the options do not say. */
struct engine *local_engine(const char *path, const struct local_options *o,
                            const struct engine_options *with, struct err *e);

#endif
