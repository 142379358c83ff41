/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem chat`: a talk at the terminal, whose answers appear as they are made; or one answer to
 * the message on the command line, or to each line of stdin. What was said stays part of the talk
 * until /clear. Ctrl-C stops an answer; what had come of it stays.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/remote/edit.h"
#include "clients/remote/interrupt.h"
#include "clients/remote/pick.h"
#include "clients/remote/remote.h"
#include "engine/base/mem.h"

enum { ANSWER_BYTES_MAX = 64 << 20, PROMPT_BYTES = 64 };

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

struct chat {
    const struct opt *o;
    const struct chat_values *v;
    struct peer *peer;
    struct term term;
    char *model;      /* owned */
    json_t *messages; /* owned */
    struct buf answer;
    const char *finish; /* "length", or what else ended it early; NULL */
    bool is_talk;       /* with a person, who sees faults and goes on */
};

/* ---- one answer ---------------------------------------------------------------------------- */

static void add(struct chat *c, const char *role, const char *text, size_t n)
{
    json_t *content = json_stringn(text, n);
    json_array_append_new(c->messages, json_pack("{s:s, s:o}", "role", role, "content",
                                                 content ? content : json_string("")));
}

static void drop_last(struct chat *c)
{
    json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

static json_t *body_of(const struct chat *c, bool is_stream)
{
    const struct chat_values *v = c->v;
    json_t *b = json_pack("{s:s, s:O, s:b}", "model", c->model, "messages", c->messages, "stream",
                          is_stream);
    if (remote_is_given(c->o, "temperature"))
        json_object_set_new(b, "temperature", json_real(v->temperature));
    if (remote_is_given(c->o, "top-p"))
        json_object_set_new(b, "top_p", json_real(v->top_p));
    if (remote_is_given(c->o, "max-tokens"))
        json_object_set_new(b, "max_tokens", json_integer(v->max_tokens));
    if (remote_is_given(c->o, "seed"))
        json_object_set_new(b, "seed", json_integer(v->seed));
    return b;
}

/* A text may have any character in it, the one that is 0 too. */
static void keep_piece(struct chat *c, const json_t *text)
{
    buf_add(&c->answer, json_string_value(text), json_string_length(text));
}

static void show_piece(const json_t *text)
{
    struct buf clean;
    buf_init(&clean, ANSWER_BYTES_MAX);
    term_clean(&clean, json_string_value(text), json_string_length(text), true);
    fwrite(clean.len ? clean.data : "", 1, clean.len, stdout);
    fflush(stdout);
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
    const json_t *text = json_object_get(json_object_get(choice, "delta"), "content");
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
        show_piece(text);
    }
    if (finish && !strcmp(finish, "length"))
        c->finish = "cut: no more tokens were allowed";
    json_decref(chunk);
    return rc;
}

static int stream_answer(struct chat *c, struct err *e)
{
    json_t *body = body_of(c, true);
    int rc = peer_stream(c->peer, "/v1/chat/completions", body, hear, c, e);
    json_decref(body);
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

/* A message and its answer become part of the talk, or neither does. */
static int say(struct chat *c, const char *text, struct err *e)
{
    add(c, "user", text, strlen(text));
    buf_clear(&c->answer);
    c->finish = NULL;
    int rc = c->v->remote.json ? whole_answer(c, e) : stream_answer(c, e);
    if (c->answer.len)
        add(c, "assistant", c->answer.data, c->answer.len);
    else
        drop_last(c);
    return rc;
}

/* ---- commands of the talk ------------------------------------------------------------------ */

static void begin_talk(struct chat *c, const char *system)
{
    json_array_clear(c->messages);
    if (system && *system)
        add(c, "system", system, strlen(system));
}

static int list_model(void *ctx, const json_t *model, struct err *e)
{
    const struct chat *c = ctx;
    const char *id = json_string_value(json_object_get(model, "id"));
    (void)e;
    if (!id)
        return 0;
    printf("%c ", strcmp(id, c->model) == 0 ? '*' : ' ');
    term_put(stdout, id);
    putchar('\n');
    return 0;
}

/* The model that the word means; without a word, all. */
static int switch_model(struct chat *c, const char *word, struct err *e)
{
    if (!*word)
        return remote_each(c->peer, "/v1/models", 0, list_model, c, e);
    char *found = pick(c->peer, "/v1/models", word, e);
    if (!found && e->code == ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND, "no model has \"%.80s\" in its name; /model lists all",
                       word);
    if (!found)
        return -1;
    free(c->model);
    c->model = found;
    return 0;
}

static void print_help(void)
{
    puts(
        "/model [NAME]   who answers from now on (a part of the name will do); alone: who there is\n"
        "/system [TEXT]  begin anew, and tell the model this first\n"
        "/clear          begin anew\n"
        "/quit           as Ctrl-D\n"
        "A message that begins with a slash is typed with two. Ctrl-C stops an answer.");
}

/* Whether the line is a command, and then what is behind it. */
static const char *is_command(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(line, name, n) != 0 || (line[n] && line[n] != ' '))
        return NULL;
    line += n;
    while (*line == ' ')
        line++;
    return line;
}

static int obey(struct chat *c, const char *line, bool *is_over, struct err *e)
{
    const char *rest;
    if ((rest = is_command(line, "/model")) != NULL)
        return switch_model(c, rest, e);
    if ((rest = is_command(line, "/system")) != NULL)
        begin_talk(c, rest);
    else if (is_command(line, "/clear"))
        begin_talk(c, c->v->system);
    else if (is_command(line, "/help"))
        print_help();
    else if (is_command(line, "/quit") || is_command(line, "/exit"))
        *is_over = true;
    else
        return err_set(e, ERR_BAD_INPUT, "no command %.40s; /help lists them", line);
    return 0;
}

/* ---- the talk ------------------------------------------------------------------------------ */

static int take_line(struct chat *c, const char *line, bool *is_over, struct err *e)
{
    if (line[strspn(line, " \t\n")] == 0)
        return 0;
    if (!c->is_talk || line[0] != '/')
        return say(c, line, e);
    return line[1] == '/' ? say(c, line + 1, e) : obey(c, line, is_over, e);
}

static int talk(struct chat *c, struct err *e)
{
    struct edit edit;
    bool is_over = false;
    int rc = 0;
    edit_init(&edit);
    if (c->is_talk)
        printf("%s%s answers; /help says what else there is%s\n", term_style(&c->term, TERM_DIM),
               c->model, term_style(&c->term, TERM_PLAIN));
    while (!is_over && !rc) {
        enum edit_end end = edit_read(&edit, &c->term, "> ");
        if (end == EDIT_OVER || (end == EDIT_DROPPED && edit.n == 0))
            break;
        rc = end == EDIT_DONE ? take_line(c, edit.text, &is_over, e) : 0;
        if (rc && c->is_talk) {
            printf("%s%s%s\n", term_style(&c->term, TERM_BAD), e->msg,
                   term_style(&c->term, TERM_PLAIN));
            rc = 0;
        }
    }
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
    c->peer = remote_peer(&c->v->remote, e);
    if (!c->peer || !(c->model = remote_base(c->peer, c->v->model, e)))
        return -1;
    begin_talk(c, c->v->system);
    interrupt_watch();
    peer_set_tick(c->peer, is_interrupted, NULL);
    return c->o->n_arg ? say(c, c->o->arg[0], e) : talk(c, e);
}

int cmd_chat(const struct opt *o)
{
    struct chat c = {.o = o, .v = o->values, .messages = json_array()};
    struct err e = ERR_INIT;
    buf_init(&c.answer, ANSWER_BYTES_MAX);
    int rc = chat(&c, &e);
    bool is_stopped = rc && c.peer && peer_gave_up(c.peer);
    json_decref(c.messages);
    buf_release(&c.answer);
    free(c.model);
    peer_free(c.peer);
    return is_stopped ? INTERRUPT_STATUS : rc ? cmd_fail(o, &e) : CMD_GOOD;
}
