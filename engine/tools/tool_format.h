/* SPDX-License-Identifier: Apache-2.0
 *
 * The forms in which families of models write calls of tools: rows of tool_format.def, found by
 * name or told from a chat template, and the grammar of texts with such calls.
 *
 * Thread: any.
 */
#ifndef ENGINE_TOOLS_TOOL_FORMAT_H
#define ENGINE_TOOLS_TOOL_FORMAT_H

#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/tools/think_reader.h"
#include "engine/tools/tool_spec.h"

struct grammar_calls;
struct tokenizer;

enum tool_shape {
    TOOL_OBJECT, /* an object with "name" and "arguments" or "parameters" */
    TOOL_LIST,   /* an array of these */
    TOOL_NAMED,  /* item, the name, mid, and an object of arguments */
    TOOL_MARKED, /* item, the name, mid, and arguments between marks */
    TOOL_PYTHON, /* a list of calls as Python has them */
    TOOL_BARE    /* item, the name, mid, and arguments with bare names and quotes of their own */
};

enum { TOOL_WORDS_MAX = 4 };

struct tool_format {
    const char *name;
    enum tool_shape shape;
    const char *start, *open, *item, *mid, *end, *between, *close; /* "" where there is none */
    const char *lead;                                              /* NULL: none */
    /* each argument is key NAME value VALUE value_end, `next` between two; a text that is a value
     * holds no `stop`. value_json stands for `value` before what is no text; NULL: the same */
    const char *key, *value, *value_json, *value_end, *stop, *next;
    const char *quote;                  /* of TOOL_BARE: before and behind a text, as it is */
    const char *behind[TOOL_WORDS_MAX]; /* what may stand behind a call; dropped */
    const char *words[TOOL_WORDS_MAX], *others[TOOL_WORDS_MAX];
    int id_len;       /* of calls' ids; 0: "call_" and 24 characters */
    bool is_numbered; /* behind a name stand : and a number, of which ids are made */
    bool is_single;   /* the templates take one call in a message: no more are let through */
};

const struct tool_format *tool_format_find(const char *name);     /* NULL: there is none */
const struct tool_format *tool_format_told(const char *template); /* NULL: it cannot be told */
const char *tool_format_names(void); /* "mistral, hermes, ...", for errors and help */

/* The special tokens of the vocabulary that calls and thoughts are written with: [*n], to be freed
 * (free). Either may be NULL. */
int32_t *tool_format_marks(const struct tool_format *f, const struct think_marks *k,
                           const struct tokenizer *t, size_t *n);

/* What a text with these tools is held to, in the arena. is_asked: it is one call, or several where
 * may_repeat; else a text without, or one that ends with such. Of tools that are not strict the
 * arguments are held to their schema where keeps_all, else they are any object. NULL with an error.
 */
struct tool_ask {
    const struct tool_spec *tool;
    size_t n_tool;
    bool is_asked, may_repeat, keeps_all;
    bool has_form;             /* a text without calls has one: */
    const struct jvalue *form; /* JSON of this schema; NULL: any object */
    const char *say;           /* stands before it; NULL: nothing does */
};
const struct grammar_calls *tool_format_grammar(const struct tool_format *f,
                                                const struct tool_ask *ask, struct arena *a,
                                                struct err *e);

#endif
