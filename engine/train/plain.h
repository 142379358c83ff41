/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said of a training in plain data: how it is asked for, what memory it takes, what each
 * step came to. engine/tune.h has these for who sees nothing else of trainings.
 *
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_PLAIN_H
#define ENGINE_TRAIN_PLAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/sha256.h"

enum train_schedule { TRAIN_CONSTANT, TRAIN_LINEAR, TRAIN_COSINE };

enum { TRAIN_TARGET_MAX = 32, TRAIN_RANK_MAX = 256 };

#define TRAIN_EXPERTS "experts" /* the target that is all products of a layer's experts */

/* Matrices that are trained whole beside an adapter, PEFT's modules_to_save. */
enum { TRAIN_SAVES_EMBED = 1, TRAIN_SAVES_HEAD = 2 };

struct train_lora {
    int64_t rank; /* 0: no adapter, every parameter is trained */
    double alpha;
    double dropout;                       /* of the adapter's input */
    double lr_ratio;                      /* of B's learning rate to A's (LoRA+); 0: 1 */
    bool is_rs;                           /* scale alpha / sqrt(rank) instead of alpha / rank */
    bool is_dora;                         /* magnitudes are trained besides (engine/model/dora.h) */
    const char *target[TRAIN_TARGET_MAX]; /* borrowed: last parts of products' names, "q_proj" */
    int32_t n_target;                     /* 0: every product that takes adapters but experts' */
    unsigned saves;                       /* TRAIN_SAVES_* */
};

/* An adapter that a training goes on from (engine/train/ancestor.h). */
struct train_ancestor {
    const char *dir;                /* borrowed: a PEFT directory; NULL: none */
    char digest[SHA256_TEXT_BYTES]; /* of its files */
};

/* What is made small: the cross-entropy of labels, a loss of pairs of rows of which the first is
 * preferred to the second, or one of rows that are each desirable or not
 * (engine/train/preference.h). */
enum train_loss {
    TRAIN_CROSS_ENTROPY,
    TRAIN_DPO,
    TRAIN_IPO,
    TRAIN_ORPO,
    TRAIN_SIMPO,
    TRAIN_KTO, /* of rows with a verdict; those before it are of pairs */
    TRAIN_LOSS_COUNT
};

struct train_preference {
    enum train_loss loss;
    double beta;                   /* of a pair's loss, or a verdict's */
    double gamma;                  /* TRAIN_SIMPO: the margin that is asked for */
    double desirable, undesirable; /* TRAIN_KTO: what rows of each verdict count */
};

static inline bool train_has_pairs(const struct train_preference *p)
{
    return p->loss != TRAIN_CROSS_ENTROPY && p->loss != TRAIN_KTO;
}

static inline bool train_has_verdicts(const struct train_preference *p)
{
    return p->loss == TRAIN_KTO;
}

static inline bool train_has_preference(const struct train_preference *p)
{
    return p->loss != TRAIN_CROSS_ENTROPY;
}

/* What is made small of texts that become vectors, or a classifier's numbers: see
 * engine/train/vector_loss.h. No pairs and no policy then. */
enum train_vector_loss {
    TRAIN_NO_VECTORS,
    TRAIN_CONTRAST,
    TRAIN_CLASSES,
    TRAIN_SIGMOIDS,
    TRAIN_SQUARES
};

struct train_vectors {
    enum train_vector_loss loss;
    double scale;   /* of cosines */
    int64_t n_each; /* rows of an example */
};

/* Of cosines, where none is said: sentence-transformers'. */
enum { TRAIN_SCALE = 20 };

static inline bool train_has_vectors(const struct train_vectors *v)
{
    return v->loss != TRAIN_NO_VECTORS;
}

/* What a sample's reward is held against (engine/train/policy.h). */
enum train_advantage { TRAIN_GRPO, TRAIN_DR_GRPO, TRAIN_RLOO };

/* A policy gradient over samples of the model itself; no pairs then. */
struct train_policy {
    bool is_on;
    bool has_row_ratio;         /* the ratio is the row's, and so is its loss */
    double clip_low, clip_high; /* ratios beyond 1 - low, 1 + high bring no more */
    double kl;                  /* from the reference; 0: nothing is compared */
};

/* What is sampled for it. */
struct train_samples {
    enum train_advantage advantage;
    int64_t group,
        max_new; /* samples of a prompt; tokens of one, the one that ends it among them */
};

/* What a step's samples came to. */
struct train_rewards {
    double reward, deviation; /* mean; its standard deviation */
    double length;            /* mean, in tokens */
    int64_t n, n_fault;       /* samples; that could not be graded */
    bool is_even; /* no sample is better than another of its prompt: no step was taken */
};

/* Where a number is 0, what suits the loss. */
void train_preference_default(struct train_preference *p);

struct train_result {
    double loss;        /* mean over the weights */
    double weight;      /* sum of the weights; of pairs: how many */
    double accuracy;    /* of labels that were the likeliest, weighted; of pairs: those whose
                         * preferred row has the larger reward; of verdicts: of rows whose reward
                         * is on the right side of the divergence */
    double reward[2];   /* of preferences: the mean one of preferred rows, and of the others; */
    double n_reward[2]; /* of how many of each */
    int64_t n_clipped; /* of a policy: labels whose ratio was clipped, and of whatever ratio that */
    int64_t n_moved;   /* was not exactly 1 */
    double kl;         /* of a policy: the mean over its labels, where it is asked for; of verdicts:
                        * the divergence that rewards are held against */
    double grad_norm;  /* before clipping; 0 for trainer_eval */
    int64_t n_tok, n_label, n_micro;
};

/* The end of an epoch, and what is to be saved, are told before the checkpoint that stands behind
 * them: after a kill they are told again rather than never. */
enum tuning_what {
    TUNING_STEP,      /* a step was taken: loss, accuracy, valid_* where evaluated */
    TUNING_EPOCH,     /* an epoch is over: `valid` of the whole set where there is one */
    TUNING_SAVE,      /* between two epochs a checkpoint is about to be written */
    TUNING_CHECKPOINT /* one is on disk */
};

struct tuning_event {
    enum tuning_what what;
    int64_t step, n_step, epoch; /* steps done, steps in all, epochs done */
    struct train_result train, valid;
    struct train_rewards rewards; /* of a policy's step; else of its answers to `valid` */
    bool has_valid;
    bool is_last;      /* of an epoch, or a save: the training ends behind it */
    int64_t n_trained; /* tokens that were in steps so far */
};

/* Which of the values that a training had was the best at its validation rows: looked at behind
 * each epoch, and at the steps at which checkpoints are asked for. */
struct tuning_best {
    int64_t step; /* 0: none was looked at */
    double loss;
    int64_t n_worse; /* looks since, none of which found a lower loss */
};

enum train_recompute { RECOMPUTE_AUTO, RECOMPUTE_ON, RECOMPUTE_OFF };

struct train_plan {
    size_t weights;                       /* of a copy that is made for this training; 0: shared */
    size_t values;                        /* of an adapter; what packed weights lack of f32 */
    size_t gradients;                     /* of what is trained */
    size_t moments;                       /* AdamW's two */
    size_t inputs;                        /* a micro-batch's arrays and K/V cells */
    size_t activations;                   /* values and gradients of a micro-batch; of these: */
    size_t logits;                        /* of the run of rows that the head has at once */
    size_t host;                          /* rows, labels, losses */
    size_t fixed;                         /* of all these, what is held from beginning to end */
    size_t total, limit;                  /* 0: no limit */
    size_t value_bytes;                   /* what the limit leaves for micro-batches; 0: no limit */
    size_t total_plain, total_recomputed; /* without and with running blocks again */
    int64_t n_tok;                        /* of the largest micro-batch */
    bool recomputes;
    bool leaves_experts; /* an adapter that has nothing for the model's experts */
};

/* One line for people. */
enum { TRAIN_PLAN_TEXT_BYTES = 512 };
const char *train_plan_text(const struct train_plan *p, char text[TRAIN_PLAN_TEXT_BYTES]);

#endif
