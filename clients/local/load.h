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
#include "engine/serve/load_flags.h"
#include "engine/serve/resident.h"
#include "kernels/format.h"

/* The first member of a command's struct. A table of options begins with load_rows.inc, the rows
 * of `load`. */
struct local_options {
    struct load_flags load;
    const char *config;
    const char *weights; /* only where a command has LOCAL_WEIGHTS_ROW */
    int64_t tp;          /* ranks that share the model; only where a command has a row for it */
    bool is_trained;     /* model_options.is_trained */
    bool text_only;      /* the model's texts, no weights: ranks load their parts themselves */
    struct comm *group;  /* moved in by local_load: of processes that share it; NULL: none */
};

#define LOCAL_ROW(section, name, type, fallback, min, max, hint, help, field)                      \
    OPT_ROW(section, name, type, fallback, min, max, hint, help,                                   \
            offsetof(struct local_options, field))

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

/* --train-floor in percent: who asks for a share or a target alone means no floor above it. */
double local_train_floor(const struct opt *o, double percent);

/* An engine on MODEL that has not started; `with` holds what the options do not say. */
struct engine *local_engine(const char *path, const struct local_options *o,
                            const struct engine_options *with, struct err *e);

#endif
