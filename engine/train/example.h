/* SPDX-License-Identifier: Apache-2.0
 *
 * What one line of a training file says: a conversation, a prompt with its completion, a
 * preference, which is a conversation with two ends, or one that waits for its end. The engine
 * reads no JSON of clients: whoever gives it a file gives it the reader of its lines, too.
 *
 * Memory: everything lies in the reader's arena, or in what that holds.
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_EXAMPLE_H
#define ENGINE_TRAIN_EXAMPLE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/template/jvalue.h"

enum train_example_kind { TRAIN_CHAT, TRAIN_TEXT, TRAIN_PREFERENCE, TRAIN_PROMPT, TRAIN_TEXTS };

/* Texts that become vectors: an anchor, its positive, a negative; or a text, or two in one input.
 */
enum { TRAIN_TEXTS_MAX = 3 };

/* A token of an answer as a teacher's server told it: its bytes, its log-probability, and those of
 * the likeliest in its place. */
enum { TRAIN_TOP_MAX = 64 }; /* tokens of one place */
struct train_token {
    const char *p; /* not terminated */
    size_t n;
    double logprob; /* at most 0 */
};
struct train_taught {
    struct train_token is;
    const struct train_token *top; /* [n_top] */
    size_t n_top;
};
struct train_teacher {
    size_t message; /* its place among the row's */
    const struct train_taught *at;
    size_t n;
};

/* What a text is labelled: by a name, or a number. */
struct train_label {
    const char *name; /* NULL: none */
    double number;
};

struct train_example {
    enum train_example_kind kind;
    struct jvalue messages, tools; /* messages: of a preference with the preferred end */
    struct jvalue other;           /* of a preference: with the other end */
    size_t n_shared;               /* of a preference: messages that both begin with */
    bool has_tools;
    const double *weight; /* [n_weight] of each message; NULL: all count */
    size_t n_weight;
    double
        row_weight; /* of a conversation, or a text: what each of its tokens counts; 0: not said */
    const struct train_teacher
        *teacher; /* [n_teacher] of a conversation: messages that one wrote */
    size_t n_teacher;
    bool is_undesirable;             /* of a row with a verdict */
    const char *prompt, *completion; /* not terminated */
    size_t n_prompt, n_completion;
    struct {
        const char *p; /* not terminated */
        size_t n;
    } text[TRAIN_TEXTS_MAX];
    size_t n_text;
    const struct train_label *label; /* [n_label] of a text; */
    size_t n_label;
    bool has_labels; /* they came as a list */
};

/* What a line is read for. */
struct train_wants {
    bool knows_developer; /* the template has that role */
    bool has_pairs;       /* preferences: where they are not wanted one is recognised, for it to be
                           * refused by name, and not read */
    bool has_prompts;     /* conversations that the model is to answer, and no others */
    bool has_verdicts;    /* conversations, or texts, that are desirable or not, and no others */
    bool has_anchors;     /* anchors with their positives, and no others */
    bool has_labels;      /* texts with labels, and no others */
};

/* An error's text names the field, not the line. */
struct train_reader {
    int (*fn)(void *ctx, struct arena *a, const char *line, size_t n, struct train_wants wants,
              struct train_example *out, struct err *e);
    void *ctx;
};

/* What the error of a file is about: a row, a row of another method's format, or neither. */
enum train_fault { TRAIN_FAULT_NONE, TRAIN_FAULT_ROW, TRAIN_FAULT_FORMAT };

#endif
