/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be said beside messages: lines that begin with a slash.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/remote/chat_own.h"
#include "clients/remote/pick.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"

enum { TALK_BYTES_MAX = 256 << 20 };

/* ---- models -------------------------------------------------------------------------------- */

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

/* ---- how answers are drawn ----------------------------------------------------------------- */

static const struct {
    const char *field, *option;
    bool is_whole;
    double min, max;
} settings[] = {{"temperature", "temperature", false, 0, 2},
                {"top_p", "top-p", false, 0, 1},
                {"max_tokens", "max-tokens", true, 1, 1 << 30},
                {"seed", "seed", true, 0, 2147483647}};
enum { N_SETTING = sizeof settings / sizeof *settings };

static json_t *number(size_t i, double v)
{
    return settings[i].is_whole ? json_integer((json_int_t)v) : json_real(v);
}

void chat_sample(struct chat *c, const struct opt *o)
{
    for (size_t i = 0; i < N_SETTING; i++)
        for (size_t k = 0; k < o->cmd->n_row; k++) {
            const struct opt_row *row = &o->cmd->row[k];
            const char *at = (const char *)o->values + row->offset;
            if (strcmp(row->name, settings[i].option) != 0 || !opt_is_given(o, row->name))
                continue;
            double v = row->type == OPT_INT ? (double)*(const int64_t *)(const void *)at
                                            : *(const double *)(const void *)at;
            json_object_set_new(c->sampling, settings[i].field, number(i, v));
        }
}

static void show_settings(const struct chat *c)
{
    for (size_t i = 0; i < N_SETTING; i++) {
        const json_t *v = json_object_get(c->sampling, settings[i].field);
        if (v)
            printf("%-12s %g\n", settings[i].field, json_number_value(v));
        else
            printf("%-12s as the server has it\n", settings[i].field);
    }
}

/* "NAME VALUE"; NAME alone: as the server has it again. */
static int set(struct chat *c, const char *rest, struct err *e)
{
    size_t n = strcspn(rest, " "), i = 0;
    const char *value = rest + n + strspn(rest + n, " ");
    char *end;
    if (!*rest) {
        show_settings(c);
        return 0;
    }
    while (i < N_SETTING &&
           (strlen(settings[i].field) != n || memcmp(settings[i].field, rest, n) != 0))
        i++;
    if (i == N_SETTING)
        return err_set(e, ERR_BAD_INPUT,
                       "/set temperature, top_p, max_tokens or seed; \"%.*s\" is none of them",
                       n < 40 ? (int)n : 40, rest);
    if (!*value) {
        json_object_del(c->sampling, settings[i].field);
        return 0;
    }
    double v = strtod(value, &end);
    bool is_good = end > value && !*end && v >= settings[i].min && v <= settings[i].max;
    if (!is_good || (settings[i].is_whole && v != (double)(json_int_t)v))
        return err_set(e, ERR_BAD_INPUT, "%s: a %snumber from %g to %g", settings[i].field,
                       settings[i].is_whole ? "whole " : "", settings[i].min, settings[i].max);
    json_object_set_new(c->sampling, settings[i].field, number(i, v));
    return 0;
}

/* ---- talks that are kept ------------------------------------------------------------------- */

/* As a row of training: {"messages": [...]}. What is there already stays. */
static int save(const struct chat *c, const char *path, struct err *e)
{
    if (!*path)
        return err_set(e, ERR_BAD_INPUT, "/save FILE");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        return err_set(e, ERR_EXISTS, "%.200s is there already", path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return err_sys(e, "%.200s", path);
    json_t *row = json_pack("{s:O}", "messages", c->messages);
    int rc = json_dumpf(row, f, JSON_COMPACT) || fputc('\n', f) == EOF ? -1 : 0;
    json_decref(row);
    rc |= fclose(f) ? -1 : 0;
    if (rc) {
        err_sys(e, "%.200s", path);
        unlink(path);
        return -1;
    }
    printf("%zu messages, a row as training takes them\n", json_array_size(c->messages));
    return 0;
}

static bool is_message(const json_t *m)
{
    return json_is_string(json_object_get(m, "role")) &&
           (json_is_string(json_object_get(m, "content")) ||
            json_is_array(json_object_get(m, "tool_calls")));
}

static int take_messages(struct chat *c, const json_t *row, struct err *e)
{
    json_t *messages = json_object_get(row, "messages");
    size_t n = json_array_size(messages), i = 0;
    while (i < n && is_message(json_array_get(messages, i)))
        i++;
    if (n == 0 || i < n)
        return err_set(e, ERR_BAD_INPUT, "it is no talk: {\"messages\": [...]} with texts");
    chat_begin(c, NULL);
    json_array_extend(c->messages, messages);
    printf("%zu messages\n", n);
    return 0;
}

static int load(struct chat *c, const char *path, struct err *e)
{
    struct buf text;
    if (!*path)
        return err_set(e, ERR_BAD_INPUT, "/load FILE");
    buf_init(&text, TALK_BYTES_MAX);
    int rc = fs_read(path, &text, e);
    if (!rc) {
        json_t *row = json_loadb(text.len ? text.data : "", text.len,
                                 JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL);
        rc = take_messages(c, row, e);
        json_decref(row);
        if (rc)
            err_wrap(e, "%.200s", path);
    }
    buf_release(&text);
    return rc;
}

/* ---- all of them --------------------------------------------------------------------------- */

static int print_help(void)
{
    puts("/model [NAME]   who answers from now on (a part of the name\n"
         "                will do); alone: who there is\n"
         "/system [TEXT]  begin anew, and tell the model this first\n"
         "/clear          begin anew\n"
         "/set [NAME [V]] temperature, top_p, max_tokens, seed; alone:\n"
         "                what they are\n"
         "/tools [FILE]   tell the model of the tools in a file (off:\n"
         "                of none); what is typed behind a call of one\n"
         "                is its result; alone: which there are\n"
         "/why            how likely each token of the last answer\n"
         "                was, and what else might have stood there\n"
         "/save FILE      keep the talk, as a row of training\n"
         "/load FILE      go on with it\n"
         "/quit           as Ctrl-D\n"
         "A message that begins with a slash is typed with two; a line\n"
         "that ends with a backslash goes on in the next, and so does\n"
         "one at Alt-Enter. Ctrl-R searches what was typed. Ctrl-C\n"
         "stops an answer.");
    return 0;
}

/* Whether the line is a command, and then what is behind it. */
static const char *is_command(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(line, name, n) != 0 || (line[n] && line[n] != ' '))
        return NULL;
    return line + n + strspn(line + n, " ");
}

int chat_obey(struct chat *c, const char *line, bool *is_over, struct err *e)
{
    const char *rest;
    if ((rest = is_command(line, "/model")) != NULL)
        return switch_model(c, rest, e);
    if ((rest = is_command(line, "/set")) != NULL)
        return set(c, rest, e);
    if ((rest = is_command(line, "/save")) != NULL)
        return save(c, rest, e);
    if ((rest = is_command(line, "/load")) != NULL)
        return load(c, rest, e);
    if ((rest = is_command(line, "/tools")) != NULL)
        return chat_tools(c, rest, e);
    if (is_command(line, "/why"))
        return chat_why(c, e);
    if (is_command(line, "/help"))
        return print_help();
    if ((rest = is_command(line, "/system")) != NULL)
        chat_begin(c, rest);
    else if (is_command(line, "/clear"))
        chat_begin(c, c->system);
    else if (is_command(line, "/quit") || is_command(line, "/exit"))
        *is_over = true;
    else
        return err_set(e, ERR_BAD_INPUT, "no command %.40s; /help lists them", line);
    return 0;
}
