/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as it lies in this process: threads, device, directory, packed weights, and with them its
 * tokenizer and its chat template, which are read beside the weights. What the server and the
 * commands that run a model themselves have in common.
 *
 * Thread: one makes it; then constant, and any reads.
 */
#ifndef ENGINE_SERVE_RESIDENT_H
#define ENGINE_SERVE_RESIDENT_H

#include "engine/model/model.h"
#include "engine/serve/load_flags.h"

struct crew;
struct crew_rank;
struct template;
struct tokenizer;

struct resident_options {
    const char *dir;
    struct load_flags load;
    int tp;            /* ranks that share the model, as threads of this process; 0, 1: one */
    struct comm *comm; /* owned from here on: rank 0's end among processes that share it; NULL */
    int (*work)(const struct crew_rank *member, struct err *e); /* as in crew_options */
    bool is_trained;                                            /* model_options.is_trained */
    bool wants_text;     /* tokenizer and template, where there are any */
    bool text_only;      /* these alone: no weights, and one compute thread */
    bool random_weights; /* drawn, not read: dir has but the shape; of one rank */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t all_bytes);
    void *progress_ctx;
};

struct resident {
    struct crew *crew; /* the ranks that share the model; NULL: one */
    struct pool *pool;
    struct device *device;
    struct stream *stream;
    struct model_dir dir;
    struct model *model;
    struct tokenizer *tokenizer; /* NULL: none */
    struct template *template;   /* NULL: none, or one that does not compile */
    struct err template_err;     /* why it does not */
};

/* After a failure, too, resident_release. */
int resident_init(struct resident *r, const struct resident_options *o, struct err *e);
void resident_release(struct resident *r);

/* How the options want a model loaded. */
struct model_options resident_model_options(const struct load_flags *f);

/* A format by its name; -1 for everything else, which stands for "chosen". */
int resident_type(const char *name);

#endif
