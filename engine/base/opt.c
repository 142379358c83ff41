/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing. The flags are read into a list first, because one of them may name the file, which has
 * a lower rank; then defaults, file, environment and flags are applied in this order, each over
 * the one before.
 */
#include "engine/base/opt.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/conf.h"
#include "engine/base/log.h"
#include "engine/base/near.h"
#include "engine/base/num.h"

/* A flag as it was given. */
struct given {
    size_t row;
    const char *value; /* borrowed from argv, or constant */
    const char *shown; /* "--port" */
};

struct parse {
    struct opt *o;
    const char *const *argv; /* borrowed */
    int argc, at;
    struct given *given; /* [n_given] in the arena */
    size_t n_given;
};

const char *opt_env(const struct opt_row *row, char name[OPT_ENV_BYTES])
{
    snprintf(name, OPT_ENV_BYTES, "TANDEM_%s", row->name);
    for (char *s = name; *s; s++)
        *s = *s == '-' ? '_' : (char)toupper((unsigned char)*s);
    return name;
}

/* ---- one value ----------------------------------------------------------------------------- */

static int set_choice(const struct opt_row *row, const char **field, const char *value,
                      struct err *e)
{
    size_t n = strlen(value);
    for (const char *s = row->hint; *s;) {
        size_t len = strcspn(s, "|");
        if (len == n && !memcmp(s, value, n)) {
            *field = value;
            return 0;
        }
        s += len + (s[len] == '|');
    }
    return err_set(e, ERR_BAD_INPUT, "\"%.40s\" is none of %s", value, row->hint);
}

static int set_int(const struct opt_row *row, int64_t *field, const char *value, struct err *e)
{
    bool is_bounded = row->min < row->max;
    int64_t floor = row->type == OPT_SIZE ? 0 : INT64_MIN;
    int64_t min = is_bounded ? (int64_t)row->min : floor;
    int64_t max = is_bounded ? (int64_t)row->max : INT64_MAX;
    return row->type == OPT_SIZE ? num_size(value, min, max, field, e)
                                 : num_int(value, min, max, field, e);
}

static int set_double(const struct opt_row *row, double *field, const char *value, struct err *e)
{
    bool is_bounded = row->min < row->max;
    return num_double(value, is_bounded ? row->min : -1e300, is_bounded ? row->max : 1e300, field,
                      e);
}

static void add_item(struct opt *o, struct opt_list *list, const char *value)
{
    const char **at = ARENA_ARRAY(&o->arena, const char *, list->n + 1);
    if (list->n)
        memcpy(at, list->at, list->n * sizeof *at);
    at[list->n++] = value;
    list->at = at;
}

/* From `source`: each item by itself, or in the environment all of them between commas. */
static void set_list(struct opt *o, size_t i, struct opt_list *list, const char *value,
                     enum opt_source source)
{
    if (o->source[i] != source)
        *list = (struct opt_list){0};
    if (source != OPT_ENV) {
        add_item(o, list, value);
        return;
    }
    for (const char *s = value; *s;) {
        size_t len = strcspn(s, ",");
        if (len)
            add_item(o, list, arena_strndup(&o->arena, s, len));
        s += len + (s[len] == ',');
    }
}

static int set_value(struct opt *o, size_t i, const char *value, enum opt_source source,
                     struct err *e)
{
    const struct opt_row *row = &o->cmd->row[i];
    void *field = (char *)o->values + row->offset;
    int rc = 0;
    value = arena_strdup(&o->arena, value);
    switch (row->type) {
    case OPT_BOOL:
        rc = num_bool(value, field, e);
        break;
    case OPT_INT:
    case OPT_SIZE:
        rc = set_int(row, field, value, e);
        break;
    case OPT_DOUBLE:
        rc = set_double(row, field, value, e);
        break;
    case OPT_CHOICE:
        rc = set_choice(row, field, value, e);
        break;
    case OPT_LIST:
        set_list(o, i, field, value, source);
        break;
    case OPT_TEXT:
    case OPT_CONFIG:
    case OPT_CONFIG_ARG:
        *(const char **)field = value;
        break;
    }
    o->source[i] = source;
    return rc;
}

/* ---- flags --------------------------------------------------------------------------------- */

static int find_row(const struct opt_cmd *cmd, const char *name, size_t len)
{
    for (size_t i = 0; i < cmd->n_row; i++)
        if (strlen(cmd->row[i].name) == len && !memcmp(cmd->row[i].name, name, len))
            return (int)i;
    return -1;
}

static int find_letter(const struct opt_cmd *cmd, char letter)
{
    for (size_t i = 0; i < cmd->n_row; i++)
        if (letter && cmd->row[i].letter == letter)
            return (int)i;
    return -1;
}

/* `dash`: "--" for a flag, "" for a name in a file. */
static int unknown(const struct opt_cmd *cmd, const char *dash, const char *name, size_t len,
                   struct err *e)
{
    char word[NEAR_LEN_MAX + 1];
    snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), name);
    struct near n = {.word = word};
    near_try(&n, "help");
    for (size_t i = 0; i < cmd->n_row; i++)
        near_try(&n, cmd->row[i].name);
    if (n.best)
        return err_set(e, ERR_BAD_INPUT, "%s%s: no such option; did you mean %s%s?", dash, word,
                       dash, n.best);
    return err_set(e, ERR_BAD_INPUT, "%s%s: no such option; see tandem %s --help", dash, word,
                   cmd->name);
}

static void give(struct parse *p, int row, const char *value, const char *shown)
{
    p->given[p->n_given++] = (struct given){(size_t)row, value, shown};
}

/* The value of a flag that stands in the next word. */
static int next_value(struct parse *p, int row, const char *shown, struct err *e)
{
    const char *next = p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL;
    if (!next)
        return err_set(e, ERR_BAD_INPUT, "%s needs a value", shown);
    if (!strncmp(next, "--", 2))
        return err_set(e, ERR_BAD_INPUT,
                       "%s needs a value; one that begins with -- is written --%s=%.40s", shown,
                       p->o->cmd->row[row].name, next);
    p->at++;
    give(p, row, next, shown);
    return 0;
}

static int take_long(struct parse *p, const char *word, struct err *e)
{
    const struct opt_cmd *cmd = p->o->cmd;
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    int row = find_row(cmd, name, len);
    const char *shown = arena_strndup(&p->o->arena, word, len + 2);
    if (row < 0 && len > 3 && !strncmp(name, "no-", 3) && !equals) {
        row = find_row(cmd, name + 3, len - 3);
        if (row >= 0 && cmd->row[row].type == OPT_BOOL) {
            give(p, row, "false", shown);
            return 0;
        }
        row = -1;
    }
    if (row < 0)
        return unknown(cmd, "--", name, len, e);
    if (equals)
        give(p, row, equals + 1, shown);
    else if (cmd->row[row].type == OPT_BOOL)
        give(p, row, "true", shown);
    else
        return next_value(p, row, shown, e);
    return 0;
}

static int take_letter(struct parse *p, const char *word, struct err *e)
{
    const struct opt_cmd *cmd = p->o->cmd;
    int row = find_letter(cmd, word[1]);
    const char *shown = arena_strndup(&p->o->arena, word, 2);
    if (row < 0)
        return err_set(e, ERR_BAD_INPUT, "%.40s: no such option; see tandem %s --help", word,
                       cmd->name);
    if (cmd->row[row].type == OPT_BOOL) {
        if (word[2])
            return err_set(e, ERR_BAD_INPUT, "%s takes no value", shown);
        give(p, row, "true", shown);
        return 0;
    }
    if (!word[2])
        return next_value(p, row, shown, e);
    give(p, row, word + 2, shown);
    return 0;
}

static int take_word(struct parse *p, bool *only_args, struct err *e)
{
    const char *word = p->argv[p->at];
    if (*only_args || word[0] != '-' || !word[1])
        p->o->arg[p->o->n_arg++] = arena_strdup(&p->o->arena, word);
    else if (!strcmp(word, "--"))
        *only_args = true;
    else if (word[1] == '-')
        return take_long(p, word, e);
    else
        return take_letter(p, word, e);
    return 0;
}

static const char *words_after(const char *words, int n)
{
    while (n-- > 0 && strchr(words, ' '))
        words = strchr(words, ' ') + 1;
    return words;
}

static int take_words(struct parse *p, struct err *e)
{
    bool only_args = false;
    for (p->at = 0; p->at < p->argc; p->at++)
        if (take_word(p, &only_args, e))
            return -1;
    const struct opt *o = p->o;
    if (o->n_arg > o->cmd->max_arg)
        return err_set(e, ERR_BAD_INPUT, "unexpected argument \"%.40s\"; see tandem %s --help",
                       o->arg[o->cmd->max_arg], o->cmd->name);
    if (o->n_arg < o->cmd->min_arg)
        return err_set(e, ERR_BAD_INPUT, "%s is missing; see tandem %s --help",
                       words_after(o->cmd->args, o->n_arg), o->cmd->name);
    return 0;
}

static bool asks_for_help(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

/* ---- layers -------------------------------------------------------------------------------- */

static void apply_defaults(struct opt *o)
{
    for (size_t i = 0; i < o->cmd->n_row; i++) {
        struct err e = ERR_INIT;
        const struct opt_row *row = &o->cmd->row[i];
        if (row->fallback && set_value(o, i, row->fallback, OPT_DEFAULT, &e))
            BUG("default of %s: %s", row->name, e.msg);
    }
}

static int apply_line(void *ctx, const char *name, const char *value, struct err *e)
{
    struct opt *o = ctx;
    int row = find_row(o->cmd, name, strlen(name));
    if (row < 0)
        return unknown(o->cmd, "", name, strlen(name), e);
    if (opt_is_config(&o->cmd->row[row]))
        return err_set(e, ERR_BAD_INPUT, "%s: a file cannot name another", name);
    if (set_value(o, (size_t)row, value, OPT_FILE, e))
        return err_wrap(e, "%s", name);
    return 0;
}

/* The file that the flags name, or the environment, or the default. */
static int apply_file(const struct parse *p, struct err *e)
{
    const struct opt_cmd *cmd = p->o->cmd;
    char env[OPT_ENV_BYTES];
    for (size_t i = 0; i < cmd->n_row; i++) {
        if (!opt_is_config(&cmd->row[i]))
            continue;
        const char *path = getenv(opt_env(&cmd->row[i], env));
        if (!path)
            path = cmd->row[i].fallback;
        if (cmd->row[i].type == OPT_CONFIG_ARG && p->o->n_arg > 0)
            path = p->o->arg[0];
        for (size_t g = 0; g < p->n_given; g++)
            if (p->given[g].row == i)
                path = p->given[g].value;
        if (path && *path && conf_read(path, apply_line, p->o, e))
            return -1;
    }
    return 0;
}

/* Kubernetes tells each container of each service by variables of its own; for one that is called
 * tandem TANDEM_PORT is tcp://ADDRESS:PORT, which nobody meant as an option. */
static bool is_service_link(const struct opt_row *row, const char *value)
{
    return row->type == OPT_INT &&
           (strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0);
}

static int apply_env(struct opt *o, struct err *e)
{
    char env[OPT_ENV_BYTES];
    for (size_t i = 0; i < o->cmd->n_row; i++) {
        const char *value = getenv(opt_env(&o->cmd->row[i], env));
        if (value && is_service_link(&o->cmd->row[i], value)) {
            log_event(LOG_WARN, "a service link of Kubernetes is no option, and is ignored",
                      LOG_TEXT("name", env), LOG_TEXT("value", value));
            continue;
        }
        if (value && set_value(o, i, value, OPT_ENV, e))
            return err_wrap(e, "%s", env);
    }
    return 0;
}

static int apply_flags(const struct parse *p, struct err *e)
{
    for (size_t g = 0; g < p->n_given; g++)
        if (set_value(p->o, p->given[g].row, p->given[g].value, OPT_FLAG, e))
            return err_wrap(e, "%s", p->given[g].shown);
    return 0;
}

int opt_init(struct opt *o, const struct opt_cmd *cmd, void *values, int argc,
             const char *const *argv, struct err *e)
{
    *o = (struct opt){.cmd = cmd, .values = values, .argv = argv, .argc = argc};
    arena_init(&o->arena, 0);
    o->source = ARENA_ARRAY(&o->arena, enum opt_source, cmd->n_row);
    o->arg = ARENA_ARRAY(&o->arena, const char *, argc);
    struct parse p = {.o = o, .argv = argv, .argc = argc};
    p.given = ARENA_ARRAY(&o->arena, struct given, argc);
    apply_defaults(o);
    o->wants_help = asks_for_help(argc, argv);
    if (o->wants_help)
        return 0;
    if (take_words(&p, e) || apply_file(&p, e) || apply_env(o, e) || apply_flags(&p, e))
        return -1;
    return 0;
}

bool opt_is_given(const struct opt *o, const char *name)
{
    for (size_t i = 0; i < o->cmd->n_row; i++)
        if (strcmp(o->cmd->row[i].name, name) == 0)
            return o->source[i] != OPT_DEFAULT;
    return false;
}

void opt_release(struct opt *o)
{
    arena_release(&o->arena);
}
