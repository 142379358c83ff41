/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyperparameters of a fine-tuning job: a row each in hyper.def. Reading what clients send, showing
 * what is in effect, keeping it in the store, and the published description walk these rows.
 *
 * Thread: any.
 */
#ifndef API_HYPER_H
#define API_HYPER_H

#include "api/jout.h"
#include "engine/base/err.h"

struct api_reader;
struct json_t; /* jansson's */

enum { HYPER_NAMES_BYTES = 256, HYPER_NAMES_MAX = 16, HYPER_TEXT_BYTES = 2048 };

/* How a job trains: "supervised", "dpo", "reinforcement", and of models of vectors and of labels
 * "x_embedding", "x_classification". */
enum hyper_method {
    HYPER_SUPERVISED,
    HYPER_DPO,
    HYPER_REINFORCEMENT,
    HYPER_EMBEDDING,
    HYPER_CLASSIFICATION,
    HYPER_METHOD_COUNT
};

struct job_hyper {
    enum hyper_method method; /* no row of the table: a job's `method.type` */
    int64_t n_epochs, batch_size, lora_rank, warmup_steps, max_length, checkpoint_steps,
        early_stopping;
    double lr_multiplier, lora_alpha, lora_dropout, weight_decay, max_grad_norm, checkpoint_minutes;
    double lora_lr_ratio, noise, distill, learning_rate, warmup_ratio, beta, gamma, clip_range,
        kl_weight;
    double compute_multiplier, desirable_weight, undesirable_weight, scale;
    int64_t group_size, max_completion_tokens, advantage, eval_interval, eval_samples;
    int64_t training_type, optimizer, schedule, long_rows, result, activation_checkpointing,
        loss; /* place of the word */
    bool use_rslora, use_dora, row_logprobs;
    /* no rows: that a client gave use_rslora, use_dora, target_modules or modules_to_save */
    bool says_rslora, says_dora, says_targets, says_saves;
    char target_modules[HYPER_NAMES_BYTES];  /* commas between; empty: all */
    char modules_to_save[HYPER_NAMES_BYTES]; /* so; empty: none */
};

/* Places of words. */
enum { HYPER_LORA = 1, HYPER_FULL };
enum { HYPER_ADAMW = 1, HYPER_ADAMW_8BIT };
enum { HYPER_CONSTANT = 1, HYPER_LINEAR, HYPER_COSINE };
enum { HYPER_CUT = 1, HYPER_REFUSE };
enum { HYPER_LAST = 1, HYPER_BEST };
enum { HYPER_AUTO = 1, HYPER_ON, HYPER_OFF };
enum { HYPER_GRPO = 1, HYPER_DR_GRPO, HYPER_RLOO };
enum { HYPER_SIMPO = 4, HYPER_KTO }; /* of the losses, which are those of enum train_loss */

const char *hyper_method_name(enum hyper_method m);

/* The type of an object `method`; the second reads the type's hyperparameters, too. */
int hyper_method_read(struct api_reader *r, const char *name, const struct json_t *v,
                      enum hyper_method *out);
int hyper_of_method(struct api_reader *r, const char *name, const struct json_t *v,
                    struct job_hyper *out);

/* The type of the option that says a hyperparameter of each kind. */
#define HYPER_OPT_INT_AUTO  OPT_INT
#define HYPER_OPT_INT_PLAIN OPT_INT
#define HYPER_OPT_NUM_AUTO  OPT_DOUBLE
#define HYPER_OPT_NUM_PLAIN OPT_DOUBLE
#define HYPER_OPT_WORD      OPT_CHOICE
#define HYPER_OPT_BOOL      OPT_BOOL
#define HYPER_OPT_NAMES     OPT_LIST

/* And of its field. */
#define HYPER_FIELD_INT_AUTO  int64_t
#define HYPER_FIELD_INT_PLAIN int64_t
#define HYPER_FIELD_NUM_AUTO  double
#define HYPER_FIELD_NUM_PLAIN double
#define HYPER_FIELD_WORD      const char *
#define HYPER_FIELD_BOOL      bool
#define HYPER_FIELD_NAMES     struct opt_list

/* An object of a method's hyperparameters, whose name is `where`; an unknown member is an error. */
int hyper_read(struct api_reader *r, const char *where, const struct json_t *v,
               enum hyper_method method, struct job_hyper *h);

/* As members of an object that is open: what is in effect, "auto" where that is not known yet. */
void hyper_write(struct jout *j, const struct job_hyper *h);

/* The description of such an object, as a member "Hyperparameters" of schemas. */
void hyper_describe(struct jout *j);

/* The numbers as the store keeps them, every bit, and back; ERR_CORRUPT: it is something else. */
void job_hyper_write(const struct job_hyper *h, struct buf *out);
int job_hyper_read(const char *text, struct job_hyper *h, struct err *e);

#endif
