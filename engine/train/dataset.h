/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows to train on: token ids, and which of them are to be learned. A row is rendered and cut into
 * tokens by what serves (the chat template, the tokenizer), so what is trained is what will be
 * asked.
 *
 * A dataset has rows, or pairs of rows of which the first is preferred to the second: one
 * conversation with two ends. Pairs stand one behind the other; one of which either row has nothing
 * to learn, or both the same, has nothing to learn. Or each row has a verdict: it is desirable or
 * not, and of a conversation the assistant's last messages alone are learned.
 *
 * Of a conversation the assistant's turns are learned, from the first byte it had to choose to the
 * token that ends its turn; a message's weight 0 leaves it out. Of a prompt with its completion the
 * completion is, and the end of the text; special tokens in both are special, as they are in the
 * prompts of /v1/completions. No token lies across the border of what is learned: what is before it
 * has the tokens that serving gives it (engine/train/row_text.h).
 *
 * Of an answer with a teacher's log-probabilities the tokens are the teacher's, and each learned
 * one is to be predicted as it was there (engine/train/taught.h); what the teacher says nothing of,
 * as the token that ends the turn, is learned as text is.
 *
 * Of texts that become vectors a row is a text as serving takes it, and what is learned is that one
 * vector: an example is an anchor with its positive, and with a negative where the first example
 * has one, or a text, or two in one row, with what a classifier is to say of it.
 *
 * Thread: filling, one at a time; constant after.
 */
#ifndef ENGINE_TRAIN_DATASET_H
#define ENGINE_TRAIN_DATASET_H

#include "engine/base/vec.h"
#include "engine/template/template.h"
#include "engine/token/tokenizer.h"
#include "engine/train/example.h"
#include "engine/train/trainer.h"

/* What happens to a row that is too long: it is cut, or an error and not added. */
enum dataset_long { DATASET_CUT, DATASET_REFUSE };

/* Rows of texts, and dataset_add_texts alone adds. */
struct dataset_texts {
    enum train_vector_loss loss; /* TRAIN_NO_VECTORS: none are */
    bool takes_last;             /* the vector is the last token's; else that of the first */
    const char *const *label;    /* borrowed: [n_label] of a classifier */
    int32_t n_label;
};

struct dataset_options {
    const struct tokenizer *tokenizer; /* borrowed; NULL: nothing can be added */
    const struct template *template;   /* borrowed; NULL: conversations cannot be rendered */
    int64_t max_tok;                   /* of a row: at most the model's context */
    enum dataset_long longer;          /* what happens to longer ones */
    int64_t now;                       /* what templates take for the date: local seconds */
    const int32_t *end_id;             /* borrowed: tokens that end a turn when they are drawn */
    int32_t n_end_id;
    bool has_pairs;            /* every two rows are a pair, and dataset_add_pair alone adds */
    bool has_verdicts;         /* rows are desirable or not */
    int64_t n_sample, max_new; /* every n_sample rows are of one prompt, with room for so many
                                * tokens each, and dataset_add_prompt alone adds; 0: none are */
    struct dataset_texts texts;
};

struct token_ids;

struct dataset_row {
    size_t at;              /* of its first token in id and is_learned */
    int64_t n;              /* tokens */
    int64_t n_learn;        /* of them to be learned */
    int64_t example;        /* its place in the file, from 1; 0: it came from none */
    float weight;           /* what each token to be learned counts beside those of others */
    size_t text_at, n_text; /* of a prompt: the line that it is from */
    size_t target_at;       /* of a classifier: what its labels are to be */
    size_t top_at;   /* what a teacher named at each of its learned tokens, in top_id and top: */
    int32_t n_top;   /* -1 stands behind the last of each; at most so many; 0: nothing at all */
    int64_t n_first; /* tokens of the first of two texts; 0: there is one */
    bool is_cut, is_undesirable;
};

struct dataset {
    struct dataset_options opt;
    VEC(int32_t) id;
    VEC(uint8_t) is_learned; /* of each id: it is to be predicted from what stands before it */
    VEC(struct dataset_row) row;
    VEC(char) text;        /* of prompts: their lines */
    VEC(float) target;     /* [n_label] of each row of a classifier */
    VEC(int32_t) top_id;   /* tokens that teachers named, */
    VEC(float) top;        /* and how likely these were */
    int32_t n_top;         /* most of a row; 0: no teacher spoke of any */
    int64_t n_taught;      /* rows of which one did */
    struct token_ids *ids; /* owned: made with the first of them */
    int64_t n_each;        /* of anchors: rows of each example, as the first one had */
    VEC(int64_t) left_out; /* examples that were too long */
    int64_t example;       /* the caller's, both: of the rows that are added next; */
    float weight;          /* at first 1 */
    const struct train_teacher *teacher; /* borrowed: of the conversation that is added next, */
    size_t n_teacher;                    /* messages that teachers wrote */
    bool is_undesirable;                 /* the verdict of the rows that are added next */
    bool has_weights;                    /* a row has another one than 1 */
    int64_t n_cut, n_barren;  /* rows that were cut; that have nothing to learn, both of a pair */
    int64_t n_tok_cut;        /* tokens that were cut off */
    int64_t n_learn, longest; /* over all rows; longest: with verdicts, that can be made of any
                               * prompt and any end (engine/train/mismatch.h) */
    int64_t longest_prompt, longest_end; /* of rows with verdicts */
    uint64_t digest;                     /* of all that is in it */
};

void dataset_init(struct dataset *d, const struct dataset_options *o);
void dataset_release(struct dataset *d);

/* A conversation: messages as the template takes them; weight[i] of message i, NULL: all 1. What
 * cannot be used is an error, and nothing is added: among it tools, calls and answers of tools that
 * the template does not show. */
int dataset_add_chat(struct dataset *d, const struct jvalue *messages, const struct jvalue *tools,
                     const double *weight, size_t n_weight, struct err *e);
int dataset_add_text(struct dataset *d, const char *prompt, size_t n_prompt, const char *completion,
                     size_t n_completion, struct err *e);

/* A conversation that is begun by the first n_shared messages of both, of which nothing is learned,
 * and ended by the others. */
int dataset_add_pair(struct dataset *d, const struct jvalue *preferred, const struct jvalue *other,
                     size_t n_shared, const struct jvalue *tools, struct err *e);

/* A conversation that the model is to answer, as serving is asked, in as many rows as it has
 * samples; text: the line that says it. */
int dataset_add_prompt(struct dataset *d, const struct jvalue *messages, const struct jvalue *tools,
                       const char *text, size_t n_text, struct err *e);

/* Rows that belong together, and how many such examples have something to learn. */
static inline int64_t dataset_n_each(const struct dataset *d)
{
    if (d->opt.texts.loss == TRAIN_CONTRAST)
        return d->n_each ? d->n_each : 2;
    return d->opt.has_pairs ? 2 : d->opt.n_sample ? d->opt.n_sample : 1;
}
static inline int64_t dataset_n_usable(const struct dataset *d)
{
    return ((int64_t)d->row.n - d->n_barren) / dataset_n_each(d);
}

/* Of a model, but for its labels' names: its vectors, or its labels. */
struct config;
struct dataset_texts dataset_texts_of(const struct config *c, bool has_labels);

/* What a row of texts says (engine/train/dataset_texts.c). */
int dataset_add_texts(struct dataset *d, const struct train_example *x, struct err *e);

/* Takes away all that was added since `then`, a copy. */
void dataset_go_back(struct dataset *d, const struct dataset *then);

/* Lists an example that was too long. */
int dataset_leave_out(struct dataset *d, int64_t example, struct err *e);

/* Row i as a trainer takes it; the arrays are filled by the caller's room of at least row.n. */
struct train_row dataset_get(const struct dataset *d, size_t i, int32_t *label);

#endif
