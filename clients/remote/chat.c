/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem chat`: a talk at the terminal, whose answers appear as they are made; or one answer to
 * the message on the command line, or to each line of stdin. What was said stays part of the talk
 * until /clear. Ctrl-C stops an answer; what had come of it stays.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/remote/chat_own.h"
#include "clients/remote/edit.h"
#include "clients/remote/history.h"
#include "clients/remote/interrupt.h"

struct chat_values {
    struct remote_options remote;
    const char *model, *system;
    double temperature, top_p;
    int64_t max_tokens, seed;
};

#define AT(field) offsetof(struct chat_values, field)
#define ROW(section_, name_, letter_, type_, min_, max_, hint_, help_, field_)                     \
    {                                                                                              \
        .section = (section_), .name = (name_), .letter = (letter_), .type = (type_),              \
        .min = (min_), .max = (max_), .hint = (hint_), .help = (help_), .offset = AT(field_)       \
    }

enum { ANSWER_BYTES_MAX = 64 << 20 };

static const struct opt_row rows[] = {
    ROW("Talk", "model", 'm', OPT_TEXT, 0, 0, "NAME",
        "who answers, by name or a part of it; default: the base that the server has", model),
    ROW(NULL, "system", 's', OPT_TEXT, 0, 0, "TEXT", "what the model is told first", system),
    ROW(NULL, "temperature", 't', OPT_DOUBLE, 0, 2, "T",
        "0: always the likeliest token; default: the server's", temperature),
    ROW(NULL, "top-p", 0, OPT_DOUBLE, 0, 1, "P",
        "draw from the likeliest tokens that have so much of the probability", top_p),
    ROW(NULL, "max-tokens", 'n', OPT_INT, 1, 1 << 30, "N", "of an answer", max_tokens),
    ROW(NULL, "seed", 0, OPT_INT, 0, 2147483647, "S", "the same seed draws the same answer", seed),
    REMOTE_ROWS};

const struct cmd_opt cmd_opt_chat = {rows, sizeof rows / sizeof *rows, sizeof(struct chat_values)};

/* ---- one answer ---------------------------------------------------------------------------- */

void chat_add(struct chat *c, const char *role, const char *text, size_t n)
{
    json_t *content = json_stringn(text, n);
    json_array_append_new(c->messages, json_pack("{s:s, s:o}", "role", role, "content",
                                                 content ? content : json_string("")));
}

void chat_begin(struct chat *c, const char *system)
{
    json_array_clear(c->messages);
    json_array_clear(c->tokens);
    json_array_clear(c->calls);
    c->n_result = 0;
    if (system && *system)
        chat_add(c, "system", system, strlen(system));
}

/* Results of tools stay: who typed them need not do so again. */
static void drop_question(struct chat *c)
{
    size_t last = json_array_size(c->messages) - 1;
    const char *role =
        json_string_value(json_object_get(json_array_get(c->messages, last), "role"));
    if (!strcmp(role, "user"))
        json_array_remove(c->messages, last);
}

static json_t *body_of(const struct chat *c, bool is_stream)
{
    json_t *b = json_pack("{s:s, s:O, s:b}", "model", c->model, "messages", c->messages, "stream",
                          is_stream);
    json_object_update(b, c->sampling);
    if (json_array_size(c->tools))
        json_object_set(b, "tools", c->tools);
    if (c->is_talk) { /* for /why */
        json_object_set_new(b, "logprobs", json_true());
        json_object_set_new(b, "top_logprobs", json_integer(CHAT_TOP));
    }
    return b;
}

/* A text may have any character in it, the one that is 0 too. */
static void keep_piece(struct chat *c, const json_t *text)
{
    buf_add(&c->answer, json_string_value(text), json_string_length(text));
}

/* NULL: the answer is over. */
static void show_piece(struct chat *c, const json_t *text)
{
    struct buf clean, out;
    buf_init(&clean, ANSWER_BYTES_MAX);
    buf_init(&out, ANSWER_BYTES_MAX);
    if (text) {
        term_clean(&clean, json_string_value(text), json_string_length(text), true);
        markdown_put(&c->styles, &out, clean.len ? clean.data : "", clean.len);
    } else {
        markdown_end(&c->styles, &out);
    }
    fwrite(out.len ? out.data : "", 1, out.len, stdout);
    fflush(stdout);
    buf_release(&out);
    buf_release(&clean);
}

static int hear(void *ctx, const char *data, size_t n, struct err *e)
{
    struct chat *c = ctx;
    if (!strcmp(data, "[DONE]"))
        return 0;
    json_t *chunk = json_loadb(data, n, JSON_ALLOW_NUL, NULL);
    const json_t *error = json_object_get(chunk, "error");
    const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta"),
                 *text = json_object_get(delta, "content");
    const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
    int rc = 0;
    if (error) {
        const char *message = json_string_value(json_object_get(error, "message"));
        rc = err_set(e, ERR_IO, "the answer broke off: %.400s",
                     message ? message : "no reason told");
    } else if (!chunk) {
        rc = err_set(e, ERR_IO, "a piece of the answer that is none: \"%.80s\"", data);
    }
    if (json_is_string(text)) {
        keep_piece(c, text);
        show_piece(c, text);
    }
    chat_calls_add(c, json_object_get(delta, "tool_calls"));
    json_array_extend(c->tokens, json_object_get(json_object_get(choice, "logprobs"), "content"));
    if (finish && !strcmp(finish, "length"))
        c->finish = "cut: no more tokens were allowed";
    json_decref(chunk);
    return rc;
}

static int stream_answer(struct chat *c, struct err *e)
{
    json_t *body = body_of(c, true);
    markdown_init(&c->styles, &c->term);
    int rc = peer_stream(c->peer, "/v1/chat/completions", body, hear, c, e);
    json_decref(body);
    show_piece(c, NULL);
    if (c->answer.len && c->answer.data[c->answer.len - 1] != '\n')
        putchar('\n');
    if (rc && peer_gave_up(c->peer) && c->is_talk) {
        interrupt_forget();
        c->finish = "stopped";
        rc = 0;
    }
    if (!rc && c->finish && c->term.is_tty)
        printf("%s(%s)%s\n", term_style(&c->term, TERM_DIM), c->finish,
               term_style(&c->term, TERM_PLAIN));
    fflush(stdout);
    return rc;
}

static int whole_answer(struct chat *c, struct err *e)
{
    json_t *body = body_of(c, false), *answer;
    int rc = peer_ask(c->peer, "POST", "/v1/chat/completions", body, &answer, e);
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), 0);
    const json_t *text = json_object_get(json_object_get(choice, "message"), "content");
    if (json_is_string(text))
        keep_piece(c, text);
    if (!rc)
        remote_print_json(answer);
    json_decref(body);
    json_decref(answer);
    return rc;
}

/* Calls that broke off are none: what they would be given is not known. */
static void keep_answer(struct chat *c, bool is_whole)
{
    if (!is_whole)
        json_array_clear(c->calls);
    if (c->answer.len || json_array_size(c->calls))
        chat_add(c, "assistant", c->answer.len ? c->answer.data : "", c->answer.len);
    else
        drop_question(c);
    if (json_array_size(c->calls)) {
        json_t *last = json_array_get(c->messages, json_array_size(c->messages) - 1);
        json_object_set_new(last, "tool_calls", json_deep_copy(c->calls));
    }
}

/* The last message, and its answer, become part of the talk, or neither does. */
static int answer(struct chat *c, struct err *e)
{
    buf_clear(&c->answer);
    json_array_clear(c->tokens);
    json_array_clear(c->calls);
    c->n_result = 0;
    c->finish = NULL;
    const struct chat_values *v = c->o->values;
    int rc = v->remote.json ? whole_answer(c, e) : stream_answer(c, e);
    keep_answer(c, !rc && !c->finish);
    chat_calls_show(c);
    return rc;
}

static int say(struct chat *c, const char *text, struct err *e)
{
    if (!chat_call(c)) {
        chat_add(c, "user", text, strlen(text));
        return answer(c, e);
    }
    chat_result(c, text);
    chat_calls_show(c);
    return chat_call(c) ? 0 : answer(c, e);
}

/* ---- the talk ------------------------------------------------------------------------------ */

static int take_line(struct chat *c, const char *line, bool *is_over, struct err *e)
{
    if (line[strspn(line, " \t\n")] == 0)
        return 0;
    if (!c->is_talk || line[0] != '/')
        return say(c, line, e);
    return line[1] == '/' ? say(c, line + 1, e) : chat_obey(c, line, is_over, e);
}

/* A message, of several lines where all but the last end with a backslash; it takes the place of
 * what is in `text`. */
static enum edit_end read_message(struct chat *c, struct edit *edit, struct buf *text)
{
    enum edit_end end;
    bool goes_on = true;
    buf_clear(text);
    buf_str(text, "");
    do {
        end = edit_read(edit, &c->term, text->len ? ". " : chat_call(c) ? "= " : "> ");
        goes_on = c->is_talk && end == EDIT_DONE && edit->n > 0 && edit->text[edit->n - 1] == '\\';
        buf_add(text, edit->text, edit->n - goes_on);
        if (goes_on)
            buf_char(text, '\n');
    } while (goes_on && !text->failed);
    return end;
}

static void greet(struct chat *c, struct history *h, struct edit *edit)
{
    struct err why = ERR_INIT;
    const char *dim = term_style(&c->term, TERM_DIM), *plain = term_style(&c->term, TERM_PLAIN);
    printf("%s%s answers; /help says what else there is%s\n", dim, c->model, plain);
    if (history_init(h, edit, &why))
        printf("%s(what is typed is not kept: %s)%s\n", dim, why.msg, plain);
}

static int talk(struct chat *c, struct err *e)
{
    struct history history = {.path = NULL};
    struct edit edit;
    struct buf text;
    bool is_over = false;
    int rc = 0;
    edit_init(&edit);
    buf_init(&text, ANSWER_BYTES_MAX);
    if (c->is_talk)
        greet(c, &history, &edit);
    while (!is_over && !rc) {
        enum edit_end end = read_message(c, &edit, &text);
        if (end == EDIT_OVER || (end == EDIT_DROPPED && edit.n == 0 && text.len == 0))
            break;
        if (end == EDIT_DONE)
            history_add(&history, text.data);
        rc = end == EDIT_DONE ? take_line(c, text.data, &is_over, e) : 0;
        if (rc && c->is_talk) {
            printf("%s%s%s\n", term_style(&c->term, TERM_BAD), e->msg,
                   term_style(&c->term, TERM_PLAIN));
            rc = 0;
        }
    }
    history_release(&history);
    buf_release(&text);
    edit_release(&edit);
    return rc;
}

static bool is_interrupted(void *ctx)
{
    (void)ctx;
    return interrupt_seen();
}

static int chat(struct chat *c, struct err *e)
{
    term_init(&c->term, stdout);
    c->is_talk = c->o->n_arg == 0 && c->term.has_cursor && isatty(STDIN_FILENO);
    const struct chat_values *v = c->o->values;
    c->system = v->system;
    c->peer = remote_peer(&v->remote, e);
    if (!c->peer || !(c->model = remote_base(c->peer, v->model, e)))
        return -1;
    chat_begin(c, c->system);
    chat_sample(c, c->o);
    interrupt_watch();
    peer_set_tick(c->peer, is_interrupted, NULL);
    return c->o->n_arg ? say(c, c->o->arg[0], e) : talk(c, e);
}

int cmd_chat(const struct opt *o)
{
    struct chat c = {.o = o,
                     .messages = json_array(),
                     .tokens = json_array(),
                     .sampling = json_object(),
                     .tools = json_array(),
                     .calls = json_array()};
    struct err e = ERR_INIT;
    buf_init(&c.answer, ANSWER_BYTES_MAX);
    int rc = chat(&c, &e);
    bool is_stopped = rc && c.peer && peer_gave_up(c.peer);
    json_decref(c.messages);
    json_decref(c.tokens);
    json_decref(c.sampling);
    json_decref(c.tools);
    json_decref(c.calls);
    buf_release(&c.answer);
    free(c.model);
    peer_free(c.peer);
    return is_stopped ? INTERRUPT_STATUS : rc ? cmd_fail(o, &e) : CMD_GOOD;
}
