/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings that remember who wrote each byte. A sink collects bytes with their origins; a string is
 * a view of bytes with the spans that cover it. Slicing copies nothing. Appending to a string that
 * lies at the end of its sink grows the sink in place, so that building a text piece by piece costs
 * what the pieces cost.
 *
 * A sink that could not grow remembers it, ignores what follows, and says so at jsink_take; the
 * error is set by then.
 *
 * Thread: one per render.
 */
#ifndef ENGINE_TEMPLATE_JINJA_TEXT_H
#define ENGINE_TEMPLATE_JINJA_TEXT_H

#include "engine/template/jinja_run.h"

struct jsink {
    struct jrun *r;
    char *data; /* in the arena */
    size_t len, cap;
    size_t n_cp, counted; /* code points among the first `counted` bytes */
    struct jspan *span;
    size_t n_span, cap_span;
    uint32_t mark; /* set in every origin written */
    bool failed;
};

void jsink_init(struct jsink *s, struct jrun *r);
void jsink_add(struct jsink *s, const char *p, size_t n, uint32_t origin);
void jsink_char(struct jsink *s, uint32_t c, uint32_t origin);
void jsink_text(struct jsink *s, const char *text, uint32_t origin); /* terminated */
void jsink_fill(struct jsink *s, char c, size_t n, uint32_t origin);
void jsink_value(struct jsink *s, const struct jvalue *str); /* a string with its spans */
void jsink_part(struct jsink *s, const struct jvalue *str, size_t from, size_t to); /* bytes */
int jsink_take(struct jsink *s, struct jvalue *out); /* the sink is over */
int jsink_fail(struct jsink *s);                     /* after an error was set; -1 */

/* A walk over the characters of a string. */
struct jwalk {
    const struct jvalue *str;
    size_t pos; /* of the next, in bytes */
    size_t i_span;
    uint32_t c, origin; /* of the current one */
    size_t at, n;       /* where it lies, its bytes */
};
void jwalk_begin(struct jwalk *w, const struct jvalue *str);
bool jwalk_next(struct jwalk *w);

int jtext_new(struct jrun *r, const char *p, size_t n, uint32_t origin, struct jvalue *out);
int jtext_view(struct jrun *r, const struct jvalue *str, size_t from, size_t to,
               struct jvalue *out); /* bytes */
int jtext_concat(struct jrun *r, const struct jvalue *a, const struct jvalue *b,
                 struct jvalue *out);
size_t jtext_offset(const struct jvalue *str, size_t cp);  /* of code point cp, in bytes */
size_t jtext_index(const struct jvalue *str, size_t byte); /* the other way */
uint32_t jtext_origin_at(const struct jvalue *str, size_t byte);
bool jtext_is(const struct jvalue *str, const char *text);
/* The first place of b in a at or after from, in bytes; SIZE_MAX when there is none. */
size_t jtext_find(const struct jvalue *a, const struct jvalue *b, size_t from);
/* The last place of b in a that ends at or before `before`, or SIZE_MAX; -1 out of operations. */
int jtext_rfind(struct jrun *r, const struct jvalue *a, const struct jvalue *b, size_t before,
                size_t *hit);
/* a with & < > " ' written for HTML; a string already safe stays. */
int jtext_escape(struct jrun *r, const struct jvalue *a, struct jvalue *out);

#endif
