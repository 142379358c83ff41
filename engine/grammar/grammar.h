/* SPDX-License-Identifier: Apache-2.0
 *
 * What a generated text must be, compiled: JSON of a schema, any JSON object, a regex, or one of
 * some texts. matcher.h runs what is compiled here and says which tokens may come next.
 *
 * Compiling is done before a request is admitted, on the thread that asks, within limits of states,
 * memory and CPU time; what exceeds one is ERR_TOO_LARGE and says which. A keyword or construct
 * that cannot be honoured is an error with its place (ERR_UNSUPPORTED, ERR_BAD_INPUT), never left
 * out. What was compiled can always be satisfied: from every beginning that it admits, an end can
 * be reached.
 *
 * Thread: any; a grammar is immutable and counted.
 */
#ifndef ENGINE_GRAMMAR_GRAMMAR_H
#define ENGINE_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct grammar;
struct jvalue;

struct grammar_limits {
    uint32_t max_states; /* of the program, and of each automaton on the way to it */
    size_t max_bytes;
    int cpu_ms;
};

extern const struct grammar_limits grammar_limits_default; /* 200,000; 64 MB; 1 s */

/* JSON that the schema admits (draft 2020-12, and what older drafts spell otherwise). is_compact:
 * without white space; else it may stand where people put it, within bounds. The schema is read
 * during the call only. */
struct grammar *grammar_schema(const struct jvalue *schema, bool is_compact,
                               const struct grammar_limits *limits, struct err *e);
struct grammar *grammar_json_object(bool is_compact, const struct grammar_limits *limits,
                                    struct err *e);

/* The whole text matches: RE2's language, without \C. */
struct grammar *grammar_regex(const char *text, size_t len, const struct grammar_limits *limits,
                              struct err *e);

struct grammar_text {
    const char *at;
    size_t len;
};

/* One of the texts, as they stand. */
struct grammar *grammar_choice(const struct grammar_text *text, size_t n,
                               const struct grammar_limits *limits, struct err *e);

/* What rule `root` of a grammar in GBNF makes. */
struct grammar *grammar_gbnf(const char *text, size_t len, const struct grammar_limits *limits,
                             struct err *e);

enum grammar_kind { GRAMMAR_SCHEMA, GRAMMAR_REGEX, GRAMMAR_GBNF };

/* A part of a text that is held to something: `begin`, then what the kind asks for, then `end`. */
struct grammar_tag {
    struct grammar_text begin, end;
    enum grammar_kind kind;
    const struct jvalue *schema; /* GRAMMAR_SCHEMA */
    struct grammar_text text;    /* the others */
};

/* Free text; once a trigger has been written, one of the tags that begin with it. */
struct grammar_tags {
    const struct grammar_tag *tag;
    size_t n_tag;
    const struct grammar_text *trigger;
    size_t n_trigger;
    bool needs_one, stops_after_first, is_compact;
};

struct grammar *grammar_tags(const struct grammar_tags *ask, const struct grammar_limits *limits,
                             struct err *e);

/* Arguments that are no JSON object: each is `key`, its name, `value`, the value, `end`, and there
 * is `between` between two. A string stands as it is, and holds no `stop`; what else it could be
 * taken for, by the types that the schema lets stand there, it is not. */
struct grammar_marks {
    struct grammar_text key, value, end, between;
    struct grammar_text value_json; /* `value` of what is no string; empty: the same */
    struct grammar_text stop;       /* empty: strings stand in quotes */
    const char *quote;              /* these: json_text.h; NULL: JSON's */
    bool is_python;                 /* None, True, False; names are those of Python */
};

/* One call of a tool: `begin`, a number and `behind_number` where there is such, its arguments,
 * `end`. */
struct grammar_call {
    const char *name; /* the tool's, for errors */
    struct grammar_text begin, behind_number, end;
    const struct grammar_marks *marks; /* NULL: a JSON object */
    const struct jvalue *types;        /* the tool's schema, to be held to or not */
    const struct jvalue *schema;       /* of the arguments; NULL: any object */
    bool is_bare;                      /* the empty object alone */
};

/* start, open, calls with `between` between two of them, close; and then the text ends. */
struct grammar_calls {
    const struct grammar_call *call;
    size_t n_call;
    struct grammar_text start, open, between, close;
    const char *not_first; /* where start is empty: no other text begins with these, or a space */
    bool may_repeat;       /* more than one call */
    bool is_asked;         /* false: there may be text before `start`, and no call at all */
    bool has_form;         /* of a text without calls; then none stands before them: */
    const struct jvalue *form; /* JSON of this schema; NULL: any object */
    struct grammar_text say;   /* stands before it */
};

struct grammar *grammar_calls(const struct grammar_calls *ask, const struct grammar_limits *limits,
                              struct err *e);

/* `say` and then `g`, behind a part of free text that ends with `close`, and up to two newlines:
 * the text may begin with `open` and such a part, or is_open: it has begun so already, and must end
 * it. Without a `close` there is no such part. */
struct grammar_part {
    struct grammar_text open, close, say;
    bool is_open;
};

struct grammar *grammar_behind(const struct grammar *g, const struct grammar_part *part,
                               const struct grammar_limits *limits, struct err *e);

struct grammar *grammar_ref(struct grammar *g);
void grammar_unref(struct grammar *g); /* NULL is fine */
size_t grammar_bytes(const struct grammar *g);

#endif
