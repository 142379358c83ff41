/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tandem train` was told and has read, and the work of each of its ranks.
 *
 * Thread: a rank's own; struct train is read by all of them, and written by the first.
 */
#ifndef CLIENTS_LOCAL_TRAIN_RANK_H
#define CLIENTS_LOCAL_TRAIN_RANK_H

#include <stdio.h>
#include <time.h>

#include "api/hyper.h"
#include "clients/local/load.h"
#include "clients/local/parallel.h"
#include "engine/train/team.h"
#include "engine/train/tuning.h"

struct train_values {
    struct local_options model;
    const char *dir, *from, *init, *method, *data, *valid, *out;
    int64_t micro, seed, keep, memory;
    double lr;
#define TRAIN_NONE(...)
#define TRAIN_TUNE(...)
#define TRAIN_BOTH                          TRAIN_TRAIN
#define TRAIN_TRAIN(kind, flag, field, ...) HYPER_FIELD_##kind field;
#define HYPER(name, member, kind, min, max, words, about, of, whose, ...)                          \
    TRAIN_##whose(kind, __VA_ARGS__)
#include "api/hyper.def"
#undef HYPER
#undef TRAIN_TRAIN
    int64_t dp; /* groups of ranks with rows of their own */
    const char *parallel;
};

struct train {
    const struct train_values *v;
    const struct opt *opt;          /* borrowed: what of these was said */
    struct arena arena;             /* of the names of the next: */
    struct train_lora lora;         /* how the adapter was made that it goes on from: */
    struct train_ancestor ancestor; /* zeros: none */
    struct resident on;             /* the model's texts, and the model where there is one rank */
    struct comm *group;             /* owned: of processes; NULL: one */
    time_t now;                     /* the same at all */
    int n_tensor, n_data;           /* ranks */
    int n_thread, n_here;           /* compute threads of each; ranks on this host */
    struct parallel_place place;    /* of --parallel auto */
    struct dataset data, valid;
    char *first; /* owned: the directory of random weights; NULL: none */
    FILE *csv;
    int64_t begin_us, first_step, n_tok;
    bool has_terminal;
    bool is_common; /* what fails now fails alike in all processes */
};

char *train_path(const struct train *t, const char *name); /* in the output folder; free() it */

bool train_of_preferences(const struct train_values *v); /* --method dpo */
bool train_of_pairs(const struct train_values *v);       /* of these: all but --loss x_kto */
struct dataset_texts
train_texts(const struct train *t); /* --method x_embedding, x_classification */
int train_check_method(const struct train *t, struct err *e); /* whether the model is of it */

char *train_result_path(const struct train *t); /* of what it makes; free() it */

/* The matrices that are trained whole, as --save-module names them. */
int train_saves(const struct train_values *v, struct train_lora *l, struct err *e);

/* What a rank trains, and how. */
int train_fill(struct train *t, const struct train_ranks *ranks, struct tuning_options *o,
               struct err *e);

/* Trains to the end, or until it is stopped; a call of every rank. */
int train_rank(void *train, struct team_rank *r, struct err *e);

#endif
