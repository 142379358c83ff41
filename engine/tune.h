/* SPDX-License-Identifier: Apache-2.0
 *
 * Fine-tuning as the server sees it: files become rows, rows train on the model that an engine
 * serves, and what is trained is written where it can be loaded from.
 *
 *     tune_rows_new -> tune_rows_read           looked at by tune_rows_info, _odd, _get
 *     tune_new -> tune_begin -> tune_run        tune_publish within its events, or behind it
 *
 * It knows of no jobs, stores or names: whoever asks hears of each step, and can end it between
 * two. Where ranks share the model they all train (engine/train/beside.h).
 *
 * Thread: rows belong to one thread at a time, and are read while they are trained on; a tune
 * belongs to the thread that made it, which hears its events. Any number of both, but one tune at a
 * time where ranks share the model.
 */
#ifndef ENGINE_TUNE_H
#define ENGINE_TUNE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/train/example.h"
#include "engine/train/limit.h"
#include "engine/train/loop.h"
#include "engine/train/plain.h"

struct buf;
struct crew_rank;
struct engine;
struct tune;
struct tune_rows;

/* ---- rows ---------------------------------------------------------------------------------- */

struct tune_rows_options {
    int64_t created_s;            /* UTC: what templates take for the date */
    int64_t max_tok;              /* of a row; 0, or more than the model's context: that */
    bool refuses_longer;          /* longer rows are left out, and not cut */
    bool has_pairs, has_verdicts; /* rows of pairs, or with labels, and no others */
    int64_t n_sample, max_new; /* rows of prompts, and no others: samples of each, their tokens; 0:
                                * none of these */
    bool has_anchors, has_labels; /* rows of texts, and no others (tune_check_method) */
    struct train_reader reader;
};

/* Rows as the engine's model is served them: empty. */
struct tune_rows *tune_rows_new(const struct engine *g, const struct tune_rows_options *o);
void tune_rows_free(struct tune_rows *r); /* NULL is fine */

/* All lines of a file, which is moved in, up to the first bad one, which the error names. */
int tune_rows_read(struct tune_rows *r, int fd, struct err *e);

/* One line, of no file or as tune_rows_line found it; the arena is for what is read of it. */
int tune_rows_add(struct tune_rows *r, const char *line, size_t n, struct arena *a, struct err *e);

/* The example of that number of a file, which is moved in, as text of at most `max` bytes. */
int tune_rows_line(struct tune_rows *r, int fd, int64_t example, size_t max, struct buf *out,
                   struct err *e);

struct tune_rows_info {
    int64_t n_example, n_chat;   /* lines that are not blank; of these: conversations */
    int64_t n_row, n_learn;      /* examples with something to learn; tokens to be learned */
    int64_t n_taught, n_tok_cut; /* examples that a teacher spoke of; tokens that were cut off */
    int64_t max_tok;             /* of a row */
    size_t bytes;
    enum train_fault fault; /* of the last error */
};
struct tune_rows_info tune_rows_info(const struct tune_rows *r);

/* Examples that deserve a word, by their number; how many there are in all. */
enum tune_odd { TUNE_ODD_CUT, TUNE_ODD_LEFT_OUT, TUNE_ODD_NOTHING_TO_LEARN, TUNE_ODD_COUNT };
size_t tune_rows_odd(const struct tune_rows *r, enum tune_odd kind, int64_t *example, size_t cap);

struct tune_row {
    const int32_t *id;         /* [n] borrowed */
    const uint8_t *is_learned; /* [n] borrowed */
    int64_t n, n_learn;
    float weight; /* of what is learned */
};
struct tune_row tune_rows_get(const struct tune_rows *r, size_t i);

/* A file looked at whole, in little memory: lines that a job would refuse, what others come to. */
struct tune_check;
struct tune_check_info {
    int64_t n_line, n_example, n_tok, n_learn; /* lines; those not blank; tokens; to be learned */
    int64_t n_cut, n_barren, n_fault; /* examples cut; with nothing to learn; that are refused */
};
struct tune_fault {
    int64_t line, example; /* from 1 */
    const char *message;   /* borrowed */
};
enum { TUNE_FAULTS_MAX = 20 }; /* that are kept */

/* The file is moved in; NULL: e says why. */
struct tune_check *tune_check_new(const struct engine *g, const struct tune_rows_options *o, int fd,
                                  struct err *e);
void tune_check_free(struct tune_check *c); /* NULL is fine */
int tune_check_some(struct tune_check *c, int64_t us, bool *is_done, struct err *e); /* so long */
struct tune_check_info tune_check_info(const struct tune_check *c);
struct tune_fault tune_check_fault(const struct tune_check *c, size_t i); /* i < n_fault, MAX */

/* ---- training: by loops of the caller's own, see engine/train/loop.h ----------------------- */

/* A sample that is to be graded; the texts are borrowed. */
struct tune_sample {
    int64_t example;         /* of the file, from 1 */
    int64_t step, place;     /* steps done before; its place among the step's samples */
    const atomic_bool *ends; /* true: its grade is not wanted any more */
    const char *line, *text; /* of the file; what the model said */
    size_t n_line, n_text;
};

/* A training by rewards, of rows of prompts. */
struct tune_policy {
    struct train_policy loss;
    struct train_samples samples;
    const char *name;   /* borrowed: of the adapter that is sampled; the caller has claimed it */
    const char *folder; /* borrowed: where it is written on the way, that of the checkpoints */
    uint64_t tenant;    /* as gen_req's */
    int64_t judge_every, grades_at_once; /* steps between looks at `valid`; threads, 0: 1 */
    /* ctx: of the training. *is_graded false: it could not be, and counts 0. */
    int (*grade)(void *ctx, const struct tune_sample *s, double *reward, bool *is_graded,
                 struct err *e);
    int (*graded)(void *ctx, struct err *e); /* all of a step, before they are used; or NULL */
};

struct tune_options {
    const struct tune_rows *data, *valid; /* borrowed; valid: NULL: none */
    bool is_full, has_codes; /* a copy of all weights, and no adapter; as in train_options */
    struct train_preference preference; /* of rows that are pairs; else zeros */
    struct tune_policy policy;          /* of rows that are prompts; else zeros */
    struct train_lora lora;             /* but for its targets, which are: */
    const char *targets;                /* "q_proj,v_proj"; "": every product */
    const char *saves; /* matrices that are trained whole, "lm_head,embed_tokens"; "": none */
    struct train_ancestor ancestor; /* that it goes on from, made as lora says; else zeros */
    double lr, decay, max_norm, distill, noise, scale; /* the last of anchors' cosines; 0: 20 */
    enum train_schedule schedule;
    int64_t warmup, n_epoch, batch;
    double warmup_ratio; /* of all steps, where warmup is 0 */
    uint64_t seed;
    enum train_recompute recompute;
    int64_t memory;          /* that it may take; 0: what is free beside keys and values */
    const char *checkpoints; /* borrowed: its folder, from which it goes on */
    int64_t checkpoint_steps, checkpoint_us; /* as in tuning_options */
    int keep;
    bool keeps_best, judges_saves; /* these two, and patience, as in tuning_options */
    int64_t patience;
    const char *row_log; /* borrowed: file of each row's losses */
    bool logs_logprobs;
    int (*event)(void *ctx, const struct tuning_event *event, struct err *e);
    bool (*is_wanted_end)(void *ctx);
    void *ctx;
};

/* How an adapter was made: what a training that goes on from it has to be (dropout is its own). */
struct tune_ancestor {
    struct train_ancestor is;    /* its folder is borrowed */
    struct train_lora lora;      /* but for its targets, which are: */
    const char *targets, *saves; /* in the arena, as those of tune_options */
};

/* Of a PEFT directory. ERR_UNSUPPORTED: none goes on from it. */
int tune_ancestor_read(const char *dir, struct tune_ancestor *out, struct arena *a, struct err *e);
bool tune_ancestor_has(const struct tune_ancestor *from, const char *targets); /* as a set */
bool tune_ancestor_saves(const struct tune_ancestor *from, const char *names); /* so */

int64_t tune_n_step(const struct tune_options *o); /* steps that such a training has */

/* Whether the model has products of the targets' names for such an adapter, or matrices to train
 * whole (weighs: by a loss of preferences, or of rewards); the error says which not. */
int tune_check_lora(const struct engine *g, struct train_lora l, const char *names, struct err *e);
int tune_check_saves(const struct engine *g, const char *names, bool weighs, struct err *e);

/* Whether this engine can train by rewards, with groups of so many samples, or all weights;
 * ERR_UNSUPPORTED says why not. tune_new asks them, too. The last: texts, or vectors, or labels. */
int tune_check_rewards(const struct engine *g, struct err *e);
int tune_check_group(const struct engine *g, int64_t group, struct err *e);
int tune_check_full(const struct engine *g, struct err *e);
int tune_check_method(const struct engine *g, bool has_anchors, bool has_labels, struct err *e);

/* Plans its memory. ERR_TOO_LARGE with the numbers: it does not fit. */
struct tune *tune_new(struct engine *g, const struct tune_options *o, struct err *e);
void tune_free(struct tune *t); /* NULL is fine */
const struct train_plan *tune_plan(const struct tune *t);

int tune_begin(struct tune *t, struct err *e); /* goes on from the newest checkpoint, if any */
int64_t tune_step(const struct tune *t);       /* steps done */
bool tune_is_over(const struct tune *t);       /* the last of them, too */
struct tuning_best tune_best(const struct tune *t);

/* Until the last step, or its end; *is_done tells which. ERR_DIVERGED. */
int tune_run(struct tune *t, bool *is_done, struct err *e);
bool tune_lacks_place(const struct tune *t); /* for the adapter that is sampled: so it failed */

/* As a PEFT directory, or of a full training a model's; base: what its model is called. */
int tune_publish(struct tune *t, const char *path, const char *base, struct err *e);

int tune_forget(const char *checkpoints, struct err *e);    /* all in a folder, which stays */
int tune_work(const struct crew_rank *seat, struct err *e); /* other ranks': engine_options.work */

#endif
