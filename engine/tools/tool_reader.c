/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine that takes a byte at a time. Between calls (TEXT) what may still become the beginning
 * of one, or be dropped, is held back; in a call all its bytes are kept (`raw`) until it is whole.
 */
#include "engine/tools/tool_reader.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/tools/args_reader.h"
#include "engine/tools/json_scan.h"

enum state {
    BEGIN,       /* nothing but spaces and the lead yet, where calls have no start */
    TEXT,        /* words */
    OPEN,        /* behind start: [ of a list */
    ITEM,        /* what stands before a call */
    NAME,        /* behind item */
    NUMBER,      /* behind the name, where calls are numbered */
    MID,         /* behind the name, or the number */
    ARGUMENTS,   /* behind mid */
    KEY_OR_END,  /* behind { of a call's object */
    KEY,         /* behind a comma in it */
    KEY_TEXT,    /* within quotes */
    COLON,       /* behind a key */
    VALUE,       /* behind the colon */
    VALUE_GOES,  /* within it */
    COMMA_OR_END /* behind a value */
};

enum value { VALUE_OTHER, VALUE_NAME, VALUE_ARGUMENTS };

struct tool_reader {
    const struct tool_format *format; /* borrowed */
    const struct tool_spec *tool;     /* borrowed: [n_tool] */
    size_t n_tool;
    bool is_streamed;
    bool is_open; /* the last call is under way */
    enum state state;
    bool is_behind;  /* a call, with nothing but spaces since */
    bool is_in_list; /* behind a call in a list: another, or ] */
    struct buf words, held, raw, word;
    size_t n_space;                /* that `held` begins with */
    const struct tool_spec *named; /* of the call under way, in forms that name it first */
    const char *item, *mid;        /* the format's; of mid n_mid bytes */
    size_t n_mid, n_match;
    struct args_reader args;
    enum value value;
    bool has_arguments;
    struct json_scan scan;
    VEC(struct tool_call) call;
};

struct tool_reader *tool_reader_new(const struct tool_format *f, const struct tool_spec *tool,
                                    size_t n_tool, bool is_streamed)
{
    struct tool_reader *r = xcalloc(1, sizeof *r);
    r->format = f;
    r->item = f->item ? f->item : "";
    r->mid = f->mid ? f->mid : "";
    r->n_mid = strlen(r->mid);
    while (f->shape == TOOL_MARKED && r->n_mid && json_scan_is_space(r->mid[r->n_mid - 1]))
        r->n_mid--;
    args_reader_init(&r->args);
    r->tool = tool;
    r->n_tool = n_tool;
    r->is_streamed = is_streamed;
    r->state = f->start ? TEXT : BEGIN;
    buf_init(&r->words, TOOL_TEXT_MAX);
    buf_init(&r->held, TOOL_TEXT_MAX);
    buf_init(&r->raw, TOOL_TEXT_MAX);
    buf_init(&r->word, TOOL_NAME_MAX + 2);
    return r;
}

void tool_reader_free(struct tool_reader *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->call.n; i++)
        buf_release(&r->call.at[i].arguments);
    vec_release(&r->call);
    buf_release(&r->words);
    buf_release(&r->held);
    buf_release(&r->raw);
    buf_release(&r->word);
    args_reader_release(&r->args);
    free(r);
}

const struct buf *tool_reader_words(const struct tool_reader *r)
{
    return &r->words;
}

struct tool_call *tool_reader_calls(const struct tool_reader *r, size_t *n)
{
    *n = r->call.n && !r->call.at[r->call.n - 1].tool ? r->call.n - 1 : r->call.n;
    return r->call.at;
}

size_t tool_reader_n_whole(const struct tool_reader *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->call.n; i++)
        n += r->call.at[i].is_whole;
    return n;
}

/* ---- a call begins and ends ---------------------------------------------------------------- */

static struct tool_call *last_call(struct tool_reader *r)
{
    return &r->call.at[r->call.n - 1];
}

static void new_call(struct tool_reader *r)
{
    vec_push(&r->call, (struct tool_call){.tool = NULL});
    buf_init(&last_call(r)->arguments, TOOL_TEXT_MAX);
    r->has_arguments = false;
    r->is_open = true;
}

/* Calls stand in [ ]. */
static bool is_list(const struct tool_format *f)
{
    return f->shape == TOOL_LIST || f->shape == TOOL_PYTHON;
}

/* A call begins with its name, not with an object that holds it. */
static bool names_first(const struct tool_format *f)
{
    return f->shape != TOOL_OBJECT && f->shape != TOOL_LIST;
}

static void begin_calls(struct tool_reader *r)
{
    r->state = is_list(r->format) ? OPEN : ITEM;
    r->n_match = 0;
}

static void end_call(struct tool_reader *r)
{
    last_call(r)->is_whole = true;
    r->is_open = false;
    buf_clear(&r->raw);
    r->is_behind = true;
    r->is_in_list = is_list(r->format);
    r->state = TEXT;
}

/* What was read since the last whole call is words. One whose name was told stays as it is. */
static void no_call(struct tool_reader *r)
{
    bool is_told = r->is_open && last_call(r)->tool && r->is_streamed;
    if (r->is_open && !is_told)
        buf_release(&r->call.at[--r->call.n].arguments);
    if (!is_told)
        buf_add(&r->words, r->raw.data ? r->raw.data : "", r->raw.len);
    buf_clear(&r->raw);
    r->is_open = r->is_behind = r->is_in_list = false;
    r->state = TEXT;
}

static const struct tool_spec *find_tool(const struct tool_reader *r, const char *name, size_t n)
{
    for (size_t i = 0; i < r->n_tool; i++)
        if (r->tool[i].is_allowed && strlen(r->tool[i].name) == n &&
            memcmp(r->tool[i].name, name, n) == 0)
            return &r->tool[i];
    return NULL;
}

/* ---- words --------------------------------------------------------------------------------- */

static bool may_become(const char *held, size_t n, const char *text)
{
    size_t len = strlen(text);
    return len >= n && memcmp(held, text, n) == 0;
}

static bool is_text(const char *held, size_t n, const char *text)
{
    return strlen(text) == n && memcmp(held, text, n) == 0;
}

/* What stands in `held` behind its spaces: something that begins calls, something that is dropped,
 * the beginning of one, or neither. */
enum found { FOUND_NOTHING, FOUND_MORE, FOUND_DROP, FOUND_CALLS, FOUND_ITEM };

static enum found look_behind(const struct tool_reader *r, const char *p, size_t n)
{
    const struct tool_format *f = r->format;
    enum found found = FOUND_NOTHING;
    if (r->is_in_list)
        return n == 1 && *p == ',' ? FOUND_ITEM : n == 1 && *p == ']' ? FOUND_DROP : FOUND_NOTHING;
    for (size_t i = 0; i < TOOL_WORDS_MAX && f->behind[i]; i++) {
        if (is_text(p, n, f->behind[i]))
            return FOUND_DROP;
        if (may_become(p, n, f->behind[i]))
            found = FOUND_MORE;
    }
    if (names_first(f) && is_text(p, n, r->item))
        return FOUND_ITEM;
    if (names_first(f) && may_become(p, n, r->item))
        found = FOUND_MORE;
    if (!f->start && f->shape == TOOL_OBJECT && *p == '{')
        return FOUND_ITEM;
    return found;
}

static enum found look(const struct tool_reader *r, const char *p, size_t n)
{
    const struct tool_format *f = r->format;
    enum found found = n ? FOUND_NOTHING : FOUND_MORE;
    if (n && r->is_behind)
        found = look_behind(r, p, n);
    if (!n || found == FOUND_DROP || found == FOUND_ITEM)
        return found;
    if (f->start && is_text(p, n, f->start))
        return FOUND_CALLS;
    if (f->start && may_become(p, n, f->start))
        return FOUND_MORE;
    if (r->state == BEGIN && *p == (is_list(f) ? '[' : '{'))
        return FOUND_ITEM;
    if (r->state == BEGIN && f->lead && is_text(p, n, f->lead))
        return FOUND_DROP;
    return r->state == BEGIN && f->lead && may_become(p, n, f->lead) ? FOUND_MORE : found;
}

static void hold(struct tool_reader *r, char c)
{
    r->n_space += r->n_space == r->held.len && json_scan_is_space(c);
    buf_char(&r->held, c);
}

static void hold_nothing(struct tool_reader *r)
{
    r->n_space = 0;
    buf_clear(&r->held);
}

/* The first of what is held is a word: its spaces, or else a byte. */
static void let_go(struct tool_reader *r)
{
    size_t n = r->n_space ? r->n_space : 1;
    buf_add(&r->words, r->held.data, n);
    memmove(r->held.data, r->held.data + n, r->held.len - n + 1);
    r->held.len -= n;
    if (!r->n_space) {
        r->is_behind = r->is_in_list = false;
        r->state = TEXT;
        while (r->n_space < r->held.len && json_scan_is_space(r->held.data[r->n_space]))
            r->n_space++;
    } else {
        r->n_space = 0;
    }
}

static void begin_item(struct tool_reader *r, char last)
{
    begin_calls(r);
    r->state = ITEM;
    r->is_in_list = false;
    if (r->format->shape == TOOL_PYTHON)
        return;
    if (names_first(r->format)) {
        new_call(r);
        buf_clear(&r->word);
        r->state = NAME;
    } else if (last == '{') {
        new_call(r);
        r->state = KEY_OR_END;
    }
}

static void words(struct tool_reader *r, char c)
{
    hold(r, c);
    while (r->held.len) {
        switch (look(r, r->held.data + r->n_space, r->held.len - r->n_space)) {
        case FOUND_MORE:
            return;
        case FOUND_NOTHING:
            let_go(r);
            continue;
        case FOUND_DROP:
            r->is_in_list = false;
            break;
        case FOUND_CALLS:
            buf_add(&r->raw, r->held.data, r->held.len);
            begin_calls(r);
            break;
        case FOUND_ITEM:
            buf_add(&r->raw, r->held.data, r->held.len);
            begin_item(r, c);
            break;
        }
        hold_nothing(r);
    }
}

/* ---- a call's object ----------------------------------------------------------------------- */

static bool is_word(const struct tool_reader *r, const char *text)
{
    return !r->word.failed && r->word.len == strlen(text) + 2 &&
           memcmp(r->word.data + 1, text, strlen(text)) == 0;
}

static enum value value_of(const struct tool_reader *r)
{
    return is_word(r, "name")                                    ? VALUE_NAME
           : is_word(r, "arguments") || is_word(r, "parameters") ? VALUE_ARGUMENTS
                                                                 : VALUE_OTHER;
}

/* A key, or the name, with its quotes. False: not any more. */
static bool quoted(struct tool_reader *r, char c, enum state then)
{
    enum json_scan_is is = json_scan_byte(&r->scan, c);
    buf_char(&r->word, c);
    if (is == JSON_SCAN_DONE)
        r->state = then;
    return is != JSON_SCAN_BAD;
}

static void begin_quoted(struct tool_reader *r)
{
    buf_clear(&r->word);
    json_scan_init(&r->scan);
    r->state = KEY_TEXT;
}

static bool begin_value(struct tool_reader *r, char c)
{
    r->value = value_of(r);
    r->state = VALUE_GOES;
    buf_clear(&r->word);
    json_scan_init(&r->scan);
    if (r->value == VALUE_ARGUMENTS) {
        bool is_first = !r->has_arguments;
        r->has_arguments = true;
        return c == '{' && is_first;
    }
    return r->value != VALUE_NAME || (c == '"' && !last_call(r)->tool);
}

/* False: the byte belongs to what follows. */
static bool value_goes(struct tool_reader *r, char c, bool *is_bad)
{
    enum json_scan_is is = json_scan_byte(&r->scan, c);
    *is_bad = is == JSON_SCAN_BAD;
    if (is == JSON_SCAN_DONE || is == JSON_SCAN_BEFORE)
        r->state = COMMA_OR_END;
    if (is == JSON_SCAN_BEFORE)
        return false;
    if (r->value == VALUE_ARGUMENTS)
        buf_char(&last_call(r)->arguments, c);
    if (r->value != VALUE_NAME)
        return true;
    buf_char(&r->word, c);
    if (is == JSON_SCAN_DONE) {
        last_call(r)->tool =
            r->word.failed ? NULL : find_tool(r, r->word.data + 1, r->word.len - 2);
        *is_bad = !last_call(r)->tool;
    }
    return true;
}

static bool end_object(struct tool_reader *r)
{
    if (!last_call(r)->tool)
        return false;
    if (!r->has_arguments)
        buf_str(&last_call(r)->arguments, "{}");
    end_call(r);
    return true;
}

/* ---- a byte in a call ---------------------------------------------------------------------- */

static bool expect(struct tool_reader *r, char c, const char *text, enum state then)
{
    if (c != text[r->n_match])
        return false;
    if (!text[++r->n_match])
        r->state = then;
    return true;
}

static bool open_item(struct tool_reader *r, char c, bool *again)
{
    const char *item = r->item;
    if (!names_first(r->format)) {
        if (json_scan_is_space(c))
            return true;
        if (c != '{')
            return false;
        new_call(r);
        r->state = KEY_OR_END;
        return true;
    }
    if (!r->n_match && json_scan_is_space(c))
        return true;
    if (*item && !expect(r, c, item, NAME))
        return false;
    if (*item && r->state != NAME)
        return true;
    *again = !*item;
    r->state = NAME;
    new_call(r);
    buf_clear(&r->word);
    return true;
}

static void begin_arguments(struct tool_reader *r)
{
    last_call(r)->tool = r->named;
    r->state = ARGUMENTS;
    json_scan_init(&r->scan);
    if (r->format->shape != TOOL_NAMED)
        args_reader_begin(&r->args, r->format, r->named);
}

/* The name ends where mid begins, so that no byte of a name may begin it. */
static bool named(struct tool_reader *r, char c, bool *again)
{
    if (tool_name_may_have(c)) {
        buf_char(&r->word, c);
        return !r->word.failed;
    }
    r->n_match = 0;
    r->state = r->format->is_numbered ? NUMBER : MID;
    *again = true;
    r->named = r->word.len ? find_tool(r, r->word.data, r->word.len) : NULL;
    buf_clear(&r->word);
    if (r->named && r->state == MID && !r->n_mid)
        begin_arguments(r);
    return r->named != NULL;
}

/* : and a number, which is told higher where that is needed to rise. */
static bool numbered(struct tool_reader *r, char c, bool *again)
{
    if (!r->word.len || (c >= '0' && c <= '9' && r->word.len < 10)) {
        buf_char(&r->word, c);
        return r->word.len > 1 || c == ':';
    }
    int64_t least = r->call.n > 1 ? r->call.at[r->call.n - 2].number + 1 : 0;
    int64_t number = r->word.len > 1 ? strtoll(r->word.data + 1, NULL, 10) : 0;
    last_call(r)->number = number > least ? number : least;
    r->state = MID;
    *again = true;
    return r->word.len > 1;
}

static bool behind_name(struct tool_reader *r, char c)
{
    if (c != r->mid[r->n_match])
        return false;
    if (++r->n_match == r->n_mid)
        begin_arguments(r);
    return true;
}

static bool foreign_arguments(struct tool_reader *r, char c)
{
    enum json_scan_is is = args_reader_byte(&r->args, c, &last_call(r)->arguments);
    if (is == JSON_SCAN_DONE)
        end_call(r);
    return is != JSON_SCAN_BAD;
}

static bool arguments(struct tool_reader *r, char c)
{
    struct buf *out = &last_call(r)->arguments;
    if (r->format->shape != TOOL_NAMED)
        return foreign_arguments(r, c);
    if (!out->len && json_scan_is_space(c))
        return true;
    if (!out->len && c != '{')
        return false;
    enum json_scan_is is = json_scan_byte(&r->scan, c);
    buf_char(out, c);
    if (is == JSON_SCAN_DONE)
        end_call(r);
    return is != JSON_SCAN_BAD;
}

static bool key_or_end(struct tool_reader *r, char c)
{
    if (json_scan_is_space(c))
        return true;
    if (c == '}' && r->state != KEY)
        return end_object(r);
    if (r->state == COMMA_OR_END) {
        r->state = KEY;
        return c == ',';
    }
    if (c != '"')
        return false;
    begin_quoted(r);
    return quoted(r, c, COLON);
}

/* False: it is no call. */
static bool in_call(struct tool_reader *r, char c, bool *again)
{
    bool is_bad = false;
    switch (r->state) {
    case OPEN:
        if (!json_scan_is_space(c))
            r->state = ITEM;
        return json_scan_is_space(c) || c == '[';
    case ITEM:
        return open_item(r, c, again);
    case NAME:
        return named(r, c, again);
    case NUMBER:
        return numbered(r, c, again);
    case MID:
        return behind_name(r, c);
    case ARGUMENTS:
        return arguments(r, c);
    case KEY_TEXT:
        return quoted(r, c, COLON);
    case COLON:
        r->state = c == ':' ? VALUE : COLON;
        return c == ':' || json_scan_is_space(c);
    case VALUE:
        if (json_scan_is_space(c))
            return true;
        if (!begin_value(r, c))
            return false;
        *again = true;
        return true;
    case VALUE_GOES:
        *again = !value_goes(r, c, &is_bad);
        return !is_bad;
    default:
        return key_or_end(r, c);
    }
}

static void take(struct tool_reader *r, char c)
{
    bool again = true, is_kept = false;
    while (again) {
        again = false;
        if (r->state == TEXT || r->state == BEGIN) {
            words(r, c);
            return;
        }
        if (!is_kept)
            buf_char(&r->raw, c);
        is_kept = true;
        if (in_call(r, c, &again))
            continue;
        no_call(r);
        return;
    }
}

int tool_reader_push(struct tool_reader *r, const char *text, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        take(r, text[i]);
    return buf_check(&r->words, "the text", e) || buf_check(&r->raw, "a call of a tool", e) ? -1
                                                                                            : 0;
}

int tool_reader_end(struct tool_reader *r, struct err *e)
{
    if (r->state != TEXT && r->state != BEGIN)
        no_call(r);
    if (!r->is_behind) /* else it was to be dropped, or the beginning of another call */
        buf_add(&r->words, r->held.data ? r->held.data : "", r->held.len);
    hold_nothing(r);
    return buf_check(&r->words, "the text", e);
}
