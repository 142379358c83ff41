/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands, made of cmd.def, and what is the same for all of them: finding the one
 * that was named, reading its options, its page, its faults.
 */
#include "clients/cli/cmd.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/near.h"

enum { PAGE_MAX_BYTES = 1 << 20 };

struct cmd {
    struct opt_cmd is; /* its rows are in opt, whose value the compiler does not see here */
    const struct cmd_opt *opt;
    cmd_fn *run;
};

static const struct cmd table[] = {
#define CMD(name, args, min_arg, max_arg, about)                                                   \
    {{#name, args, about, min_arg, max_arg, NULL, 0}, &cmd_opt_##name, cmd_##name},
#include "clients/cli/cmd.def"
#undef CMD
};

enum { N_CMD = sizeof table / sizeof *table, NAME_BYTES = CMD_NAME_BYTES };

/* What people type for a row: its name with spaces for underscores. */
static const char *typed(const struct cmd *cmd, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s", cmd->is.name);
    for (char *s = name; *s; s++)
        *s = *s == '_' ? ' ' : *s;
    return name;
}

/* How many of the words are the command's name; 0 when they begin otherwise. */
static int fit(const struct cmd *cmd, int n_word, const char *const *word)
{
    const char *at = cmd->is.name;
    for (int i = 0; i < n_word; i++) {
        size_t n = strcspn(at, "_");
        if (strlen(word[i]) != n || memcmp(word[i], at, n) != 0)
            return 0;
        if (!at[n])
            return i + 1;
        at += n + 1;
    }
    return 0;
}

/* Whether a command of several words begins with this one. */
static bool is_kin(const struct cmd *cmd, const char *word)
{
    size_t n = strcspn(cmd->is.name, "_");
    return cmd->is.name[n] && strlen(word) == n && !memcmp(word, cmd->is.name, n);
}

/* The commands whose first word was right, and the rest not. */
static bool list_kin(const char *word, struct buf *kin)
{
    char name[NAME_BYTES];
    for (int i = 0; i < N_CMD; i++)
        if (is_kin(&table[i], word))
            buf_printf(kin, "%s`tandem %s`", kin->len ? ", " : "", typed(&table[i], name));
    return kin->len > 0;
}

static int no_such(int n_word, const char *const *word, struct err *e)
{
    struct near near = {.word = word[0]};
    struct buf kin;
    buf_init(&kin, PAGE_MAX_BYTES);
    for (int i = 0; i < N_CMD; i++)
        near_try(&near, table[i].is.name);
    if (list_kin(word[0], &kin))
        err_set(e, ERR_NOT_FOUND, "no command \"%s%s%.40s\"; there are %s", word[0],
                n_word > 1 ? " " : "", n_word > 1 ? word[1] : "", kin.data);
    else if (near.best)
        err_set(e, ERR_NOT_FOUND, "no command \"%s\"; did you mean \"%s\"?", word[0], near.best);
    else
        err_set(e, ERR_NOT_FOUND, "no command \"%.40s\"; `tandem help` lists them", word[0]);
    buf_release(&kin);
    return 0;
}

/* `jobs` takes no words, but there are `jobs get` and others: what follows was to be one of them.
 */
static bool is_wrong_kin(const struct cmd *cmd, int n, int n_word, const char *const *word)
{
    struct buf kin;
    buf_init(&kin, PAGE_MAX_BYTES);
    bool is = n == 1 && n < n_word && word[n][0] != '-' && cmd->is.max_arg == 0 &&
              list_kin(word[0], &kin);
    buf_release(&kin);
    return is;
}

/* The command that most of the first words name, and how many they are; 0: none, with what was
 * meant. */
static int find(int n_word, const char *const *word, const struct cmd **cmd, struct opt_cmd *is,
                char name[NAME_BYTES], struct err *e)
{
    int most = 0;
    for (int i = 0; i < N_CMD; i++) {
        int n = fit(&table[i], n_word, word);
        if (n <= most)
            continue;
        most = n;
        *cmd = &table[i];
    }
    if (most == 0 || is_wrong_kin(*cmd, most, n_word, word))
        return no_such(n_word, word, e);
    *is = cmd_get((size_t)(*cmd - table), name);
    return most;
}

/* Of the terminal that is read on; 0: there is none. */
static int columns(void)
{
    struct winsize size;
    bool is_known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return is_known ? size.ws_col : 0;
}

static int print_page(const struct opt_cmd *is)
{
    struct buf page;
    int n = columns();
    buf_init(&page, PAGE_MAX_BYTES);
    opt_help(is, n > 0 && n < OPT_PAGE_COLUMNS ? n : OPT_PAGE_COLUMNS, &page);
    fputs(page.data, stdout);
    buf_release(&page);
    return CMD_GOOD;
}

/* What it is for stands beside it, on a narrow terminal below it; who is no terminal gets a line.
 */
static void print_line(const struct cmd *cmd)
{
    enum { BEFORE = 9, GAP = 2, BELOW = 6 };
    char name[NAME_BYTES];
    struct buf line;
    size_t widest = 0, at;
    int n = columns(), width = n ? n : PAGE_MAX_BYTES;
    for (int i = 0; i < N_CMD; i++) {
        size_t len = strlen(table[i].is.name) + 1 + strlen(table[i].is.args);
        widest = len > widest ? len : widest;
    }
    at = BEFORE + widest + GAP;
    buf_init(&line, PAGE_MAX_BYTES);
    buf_printf(&line, "  tandem %s %s", typed(cmd, name), cmd->is.args);
    if (width < OPT_PAGE_COLUMNS) {
        at = BELOW;
        buf_printf(&line, "\n%*s", BELOW, "");
    } else {
        buf_printf(&line, "%*s", (int)(at - line.len), "");
    }
    opt_words(&line, cmd->is.about, (int)at, width, &at);
    puts(line.data);
    buf_release(&line);
}

/* A line for each that begins with this word of several; how many they are. */
static int print_kin(const char *word)
{
    int n = 0;
    for (int i = 0; i < N_CMD; i++)
        if (is_kin(&table[i], word)) {
            print_line(&table[i]);
            n++;
        }
    return n;
}

static bool asks_help(int n_word, const char *const *word)
{
    return n_word == 2 && (!strcmp(word[1], "--help") || !strcmp(word[1], "-h"));
}

size_t cmd_count(void)
{
    return N_CMD;
}

struct opt_cmd cmd_get(size_t i, char name[CMD_NAME_BYTES])
{
    struct opt_cmd is = table[i].is;
    is.name = typed(&table[i], name);
    is.row = table[i].opt->row;
    is.n_row = table[i].opt->n_row;
    return is;
}

/* Where the command's first word is a model, it becomes the path of one. */
static int find_model(const struct opt_cmd *cmd, struct opt *o, struct err *e)
{
    bool takes_model = !strncmp(cmd->args, "MODEL", 5) || !strcmp(cmd->args, "[MODEL]");
    char *path;
    if (!takes_model || o->n_arg == 0 || o->wants_help)
        return 0;
    if (cmd_model(o->arg[0], &path, e))
        return -1;
    if (path)
        o->arg[0] = arena_strdup(&o->arena, path);
    free(path);
    return 0;
}

int cmd_dispatch(int argc, char **argv)
{
    const char *const *word = (const char *const *)argv;
    struct err e = ERR_INIT;
    struct opt_cmd is;
    struct opt o;
    const struct cmd *cmd;
    char name[NAME_BYTES];
    int status, n = find(argc, word, &cmd, &is, name, &e);
    if (n == 0)
        return asks_help(argc, word) && print_kin(word[0]) ? CMD_GOOD : cmd_fail(NULL, &e);
    void *values = xcalloc(1, cmd->opt->bytes + 1);
    if (opt_init(&o, &is, values, argc - n, word + n, &e) != 0 || find_model(&is, &o, &e) != 0)
        status = cmd_fail(&o, &e);
    else
        status = o.wants_help ? print_page(&is) : cmd->run(&o);
    opt_release(&o);
    free(values);
    return status;
}

int cmd_show(int n_word, const char *const *word)
{
    struct err e = ERR_INIT;
    const struct cmd *cmd;
    struct opt_cmd is;
    char name[NAME_BYTES];
    int n = find(n_word, word, &cmd, &is, name, &e);
    if (n == n_word)
        return print_page(&is);
    if (n == 0 && n_word == 1 && print_kin(word[0]))
        return CMD_GOOD;
    if (n > 0)
        err_set(&e, ERR_BAD_INPUT, "unexpected argument \"%.40s\" behind \"%s\"", word[n], name);
    return cmd_fail(NULL, &e);
}

void cmd_list(const char *const *name, int n, bool is_of_these)
{
    for (int k = 0; k < n && is_of_these; k++)
        for (int i = 0; i < N_CMD; i++)
            if (strcmp(table[i].is.name, name[k]) == 0)
                print_line(&table[i]);
    for (int i = 0; i < N_CMD && !is_of_these; i++) {
        bool is_one = false;
        for (int k = 0; k < n; k++)
            is_one |= strcmp(table[i].is.name, name[k]) == 0;
        if (!is_one)
            print_line(&table[i]);
    }
}

/* For so long at most does an end wait for who should read what is wrong. */
static bool is_read(FILE *f)
{
    enum { WAIT_MS = 2000 };
    struct pollfd to = {.fd = fileno(f), .events = POLLOUT};
    return poll(&to, 1, WAIT_MS) != 0;
}

static void print_fault(const struct opt *o, const struct err *e)
{
    fprintf(stderr, "tandem%s%s: ", o ? " " : "", o ? o->cmd->name : "");
    for (const char *s = e->msg; *s; s++) /* it may quote what a terminal would obey */
        fputc((unsigned char)*s < ' ' || *s == 127 ? ' ' : *s, stderr);
    fputc('\n', stderr);
}

int cmd_fail(const struct opt *o, const struct err *e)
{
    if (is_read(stderr))
        print_fault(o, e);
    switch (e->code) {
    case ERR_BAD_INPUT:
    case ERR_NOT_FOUND:
    case ERR_TOO_LARGE:
    case ERR_UNSUPPORTED:
    case ERR_CORRUPT:
        return CMD_USAGE;
    default:
        return CMD_FAILED;
    }
}
