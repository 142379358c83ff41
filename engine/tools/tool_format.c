/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows, and what follows from one.
 */
#include "engine/tools/tool_format.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/grammar/grammar.h"
#include "engine/token/tokenizer.h"

#define TOOL_FORMAT(id, ...) {.name = #id, __VA_ARGS__},
static const struct tool_format rows[] = {
#include "engine/tools/tool_format.def"
};
#undef TOOL_FORMAT

#define TOOL_FORMAT(id, ...) ", " #id
static const char names[] =
#include "engine/tools/tool_format.def"
    ;
#undef TOOL_FORMAT

enum { N_ROW = sizeof rows / sizeof *rows };

const char *tool_format_names(void)
{
    return names + 2;
}

const struct tool_format *tool_format_find(const char *name)
{
    for (size_t i = 0; i < N_ROW; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static bool is_told(const struct tool_format *f, const char *template)
{
    for (size_t i = 0; i < TOOL_WORDS_MAX; i++) {
        if (f->words[i] && !strstr(template, f->words[i]))
            return false;
        if (f->others[i] && strstr(template, f->others[i]))
            return false;
    }
    return true;
}

const struct tool_format *tool_format_told(const char *template)
{
    for (size_t i = 0; i < N_ROW; i++)
        if (is_told(&rows[i], template))
            return &rows[i];
    return NULL;
}

/* ---- special tokens ------------------------------------------------------------------------ */

static bool writes(const struct tool_format *f, const char *piece, size_t n)
{
    const char *const text[] = {f->start,      f->open,      f->item, f->mid, f->end,
                                f->between,    f->close,     f->lead, f->key, f->value,
                                f->value_json, f->value_end, f->quote};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (text[i] && memmem(text[i], strlen(text[i]), piece, n))
            return true;
    for (size_t i = 0; i < TOOL_WORDS_MAX; i++)
        if (f->behind[i] && memmem(f->behind[i], strlen(f->behind[i]), piece, n))
            return true;
    return false;
}

/* Of a mark that is made of several it is one of these. */
static bool is_mark(const struct think_marks *k, const char *piece, size_t n)
{
    const char *const text[] = {k->open, k->close, k->say};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (text[i] && (k->say ? memmem(text[i], strlen(text[i]), piece, n) != NULL
                               : strlen(text[i]) == n && memcmp(text[i], piece, n) == 0))
            return true;
    return false;
}

int32_t *tool_format_marks(const struct tool_format *f, const struct think_marks *k,
                           const struct tokenizer *t, size_t *n)
{
    int32_t *id = NULL;
    *n = 0;
    for (int32_t i = 0; (size_t)i < tokenizer_size(t); i++) {
        size_t len;
        const char *piece = tokenizer_piece(t, i, &len);
        if (!piece || len < 2 || !tokenizer_is_special(t, i))
            continue;
        if (!(f && writes(f, piece, len)) && !(k && is_mark(k, piece, len)))
            continue;
        id = xrealloc(id, (*n + 1) * sizeof *id);
        id[(*n)++] = i;
    }
    return id;
}

/* ---- the grammar --------------------------------------------------------------------------- */

static struct grammar_text text_of(const char *s)
{
    return (struct grammar_text){s ? s : "", s ? strlen(s) : 0};
}

static bool is_marked(const struct tool_format *f)
{
    return f->shape == TOOL_MARKED || f->shape == TOOL_PYTHON || f->shape == TOOL_BARE;
}

static struct grammar_marks marks_of(const struct tool_format *f)
{
    return (struct grammar_marks){.key = text_of(f->key),
                                  .value = text_of(f->value),
                                  .value_json = text_of(f->value_json),
                                  .end = text_of(f->value_end),
                                  .between = text_of(f->next),
                                  .stop = text_of(f->stop),
                                  .quote = f->quote,
                                  .is_python = f->shape == TOOL_PYTHON};
}

static struct grammar_call call_of(const struct tool_format *f, const struct tool_ask *ask,
                                   const struct tool_spec *tool, const struct grammar_marks *m,
                                   struct arena *a)
{
    bool is_held = ask->keeps_all || tool->is_strict;
    const char *item = f->item ? f->item : "", *mid = f->mid ? f->mid : "";
    const char *begin = f->is_numbered ? arena_printf(a, "%s%s:", item, tool->name)
                                       : arena_printf(a, "%s%s%s", item, tool->name, mid);
    return (struct grammar_call){.name = tool->name,
                                 .begin = text_of(begin),
                                 .behind_number = text_of(f->is_numbered ? mid : NULL),
                                 .end = text_of(f->end),
                                 .marks = is_marked(f) ? m : NULL,
                                 .types = tool->parameters,
                                 .is_bare = is_held && !tool->parameters,
                                 .schema = is_held ? tool->parameters : NULL};
}

const struct grammar_calls *tool_format_grammar(const struct tool_format *f,
                                                const struct tool_ask *ask, struct arena *a,
                                                struct err *e)
{
    struct grammar_calls *out = arena_try(a, 1, sizeof *out, e);
    struct grammar_call *call = out ? arena_try(a, ask->n_tool, sizeof *call, e) : NULL;
    struct grammar_marks *m = call ? arena_try(a, 1, sizeof *m, e) : NULL;
    if (!m)
        return NULL;
    *m = marks_of(f);
    *out = (struct grammar_calls){.call = call,
                                  .start = text_of(f->start),
                                  .open = text_of(f->open),
                                  .between = text_of(f->between),
                                  .close = text_of(f->close),
                                  .not_first = f->shape == TOOL_PYTHON ? "[<" : "{<",
                                  .may_repeat = ask->may_repeat,
                                  .is_asked = ask->is_asked,
                                  .has_form = ask->has_form,
                                  .say = text_of(ask->say),
                                  .form = ask->form};
    for (size_t i = 0; i < ask->n_tool; i++)
        if (ask->tool[i].is_allowed)
            call[out->n_call++] = call_of(f, ask, &ask->tool[i], m, a);
    return out;
}
