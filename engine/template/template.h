/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat templates: a Jinja text, compiled once, renders conversations as Hugging Face transformers
 * does (sandboxed, immutable, trim_blocks, lstrip_blocks, break and continue, {% generation %}).
 * The program has this one renderer: serving and training both call it.
 *
 * The output knows who wrote each byte (jorigin.h). From that follow the two things it is for:
 * special tokens may be parsed only in trusted spans, so nothing a user writes becomes one; and the
 * loss mask of a training row is a set of spans, which template_render_turns finds.
 *
 * A template that loops, grows or recurses without end, or a conversation that makes it do so, runs
 * into limits and gets ERR_TOO_LARGE. Everything else that goes wrong while rendering is
 * ERR_BAD_INPUT, among it what the template itself raises (raise_exception), whose text is passed
 * on as it is.
 *
 * Compiling and rendering recurse, within limits: half a megabyte of stack is enough.
 *
 * Ownership: a template is counted; an output is the caller's to release. Values stay the caller's
 * and are not changed.
 * Thread: any; any number render from one template at once.
 */
#ifndef ENGINE_TEMPLATE_TEMPLATE_H
#define ENGINE_TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/template/jorigin.h"
#include "engine/template/jvalue.h"
#include "engine/token/tokenizer.h"

enum { TEMPLATE_MAX_BYTES = 1 << 20 };

struct template;

/* Errors name the line. The text is copied. */
int template_compile(const char *text, size_t len, struct template **out, struct err *e);
struct template *template_ref(struct template *t);
void template_unref(struct template *t); /* NULL is fine */

/* Whether the text reads a variable of this name: a template without `tools` ignores tools, and
 * the variables that a client may pass are those that its template uses. */
bool template_uses(const struct template *t, const char *name);
bool template_has_generation(const struct template *t);
bool template_mentions(const struct template *t, const char *word); /* anywhere in its text */

struct template_limits {
    uint64_t ops;        /* 0: 5 million */
    size_t out_bytes;    /* of the output and of any text on the way; 0: 16 MiB */
    size_t memory_bytes; /* 0: 256 MiB */
};

struct template_token {
    const char *name, *text; /* borrowed; as "bos_token", "<s>" */
};

/* What templates know of a tokenizer's special tokens: bos_token and the like, those it has. They
 * borrow from it. */
enum { TEMPLATE_TOKENS = 4 };
size_t template_tokens(const struct tokenizer *t, struct template_token at[TEMPLATE_TOKENS]);

struct template_in {
    const struct jvalue *messages; /* a list of dicts */
    const struct jvalue *tools;    /* NULL: None */
    const struct jvalue *extra;    /* a dict of further variables; NULL: none */
    const struct template_token *token;
    size_t n_token;
    bool add_generation_prompt;
    int64_t now; /* what strftime_now shows: local seconds since 1970 */
    struct template_limits limits;
};

struct template_span {
    size_t begin, end;
    uint32_t origin;
};

struct template_out {
    char *text; /* owned, terminated */
    size_t len;
    struct template_span *span; /* owned; in order, without gaps, cover the text */
    size_t n_span;
};

int template_render(const struct template *t, const struct template_in *in,
                    struct template_out *out, struct err *e);
void template_out_release(struct template_out *out);

/* The text as the tokenizer takes it, neighbours of equal trust joined. seg has room for n_span;
 * returns how many there are. They borrow from out. */
size_t template_out_segments(const struct template_out *out, struct tok_segment *seg);

/* A piece of the text that the assistant wrote, from the first byte it had to choose to the end of
 * its turn (the token that ends it included). */
struct template_turn {
    size_t begin, end;
    int64_t message; /* its index; -1 when no byte of it came from a message */
};

struct template_turns {
    struct template_turn *at; /* owned */
    size_t n;
    size_t n_lost; /* assistant messages of which the template shows nothing */
};

/* Renders a conversation and finds the turns of the assistant in it.
 *
 * A template with {% generation %} has said it: the turns are what was written inside.
 *
 * Otherwise, for assistant message i, with T the whole text and [a, b) the bytes in T that came
 * from message i:
 *   begin  the length of render(messages before i, with the generation prompt), when that is a
 *          prefix of T; else the end of the last occurrence of that generation prompt between the
 *          previous message's bytes and a; else a. (Templates that rewrite earlier turns, as those
 *          that drop old reasoning do, take the second or third way.)
 *   end    b and what render(messages up to i) has behind the last byte of message i, when T goes
 *          on in the same way; else b.
 * An empty message has no [a, b): it has a turn when both renders are prefixes of T, and is counted
 * in n_lost otherwise. The prefixes cost two renders for each message of the assistant.
 *
 * in->add_generation_prompt is taken as false. */
int template_render_turns(const struct template *t, const struct template_in *in,
                          struct template_out *out, struct template_turns *turns, struct err *e);
void template_turns_release(struct template_turns *turns);

/* The layer below: exactly these variables, each with the origin of its kind. */
struct template_var {
    const char *name;
    struct jvalue value;
    enum jorigin_kind kind; /* JORIGIN_MESSAGE: a list of messages, stamped one by one */
};
int template_render_vars(const struct template *t, const struct template_var *var, size_t n_var,
                         const struct template_limits *limits, int64_t now,
                         struct template_out *out, struct err *e);

#endif
