/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem man`: the manual page, in the language of man(1), from the table of commands and options.
 */
#include <stdio.h>
#include <string.h>

#include "clients/cli/cmd.h"
#include "engine/base/version.h"

enum { PAGE_BYTES_MAX = 4 << 20 };

const struct cmd_opt cmd_opt_man = {0};

/* Text as roff reads it: no character of it is a request or an escape. */
static void put_text(const char *text, struct buf *out)
{
    bool begins = true;
    for (const char *s = text; *s; s++) {
        if (begins && (*s == '.' || *s == '\''))
            buf_str(out, "\\&");
        begins = *s == '\n';
        if (*s == '\\')
            buf_str(out, "\\e");
        else if (*s == '-')
            buf_str(out, "\\-");
        else if (*s == '`')
            buf_str(out, "\\(ga");
        else if (*s == '\'')
            buf_str(out, "\\(aq");
        else if (*s == '^')
            buf_str(out, "\\(ha");
        else if (*s == '~')
            buf_str(out, "\\(ti");
        else
            buf_char(out, *s);
    }
}

static void put_font(char font, const char *text, struct buf *out)
{
    buf_printf(out, "\\f%c", font);
    put_text(text, out);
    buf_str(out, "\\fR");
}

static void put_flag(const struct opt_row *row, struct buf *out)
{
    char name[96], letter[] = {'-', row->letter, 0};
    bool is_on = row->type == OPT_BOOL && row->fallback && !strcmp(row->fallback, "true");
    snprintf(name, sizeof name, is_on ? "--[no-]%s" : "--%s", row->name);
    if (row->letter) {
        put_font('B', letter, out);
        buf_str(out, ", ");
    }
    put_font('B', name, out);
    if (row->type != OPT_BOOL) {
        buf_char(out, ' ');
        put_font('I', row->hint ? row->hint : row->type == OPT_SIZE ? "SIZE" : "VALUE", out);
    }
    buf_char(out, '\n');
}

static void put_row(const struct opt_row *row, struct buf *out)
{
    char env[OPT_ENV_BYTES];
    bool shows = row->fallback && *row->fallback && row->type != OPT_BOOL;
    buf_str(out, ".TP\n");
    put_flag(row, out);
    put_text(row->help, out);
    buf_str(out, row->type == OPT_LIST ? " (may be repeated)" : "");
    if (shows) {
        buf_str(out, " (default ");
        put_text(row->fallback, out);
        buf_char(out, ')');
    }
    buf_str(out, ".\n");
    put_font('B', opt_env(row, env), out);
    buf_str(out, "\n");
}

static void put_command(const struct opt_cmd *cmd, struct buf *out)
{
    buf_str(out, ".SS \"tandem ");
    put_text(cmd->name, out);
    if (*cmd->args) {
        buf_char(out, ' ');
        put_text(cmd->args, out);
    }
    buf_str(out, "\"\n");
    put_text(cmd->about, out);
    buf_str(out, ".\n");
    for (size_t r = 0; r < cmd->n_row; r++)
        put_row(&cmd->row[r], out);
}

static const char before[] =
    ".SH NAME\n"
    "tandem \\- serves and fine\\-tunes language models\n"
    ".SH SYNOPSIS\n"
    ".B tandem\n"
    ".I COMMAND\n"
    ".RI [ ARGUMENT ]...\n"
    ".RI [ OPTION ]...\n"
    ".SH DESCRIPTION\n"
    "One program that serves a language model over HTTP, as OpenAI's API, and fine\\-tunes it on the\n"
    "weights that it serves, while it serves them.\n"
    ".PP\n"
    "A flag is written\n"
    ".BI \\-\\-name \" value\"\n"
    "or\n"
    ".BI \\-\\-name= value\\fR.\n"
    "It overrides its variable of the environment, which is named behind it here and in\n"
    ".BR \"tandem \\fICOMMAND\\fP \\-\\-help\" ,\n"
    "and which overrides the line of the same name in a configuration file, where the command takes\n"
    "one.\n"
    ".SH COMMANDS\n";

static const char behind[] =
    ".SH ENVIRONMENT\n"
    "Beside the variables of the options:\n"
    ".TP\n"
    "\\fBNO_COLOR\\fR\n"
    "set to anything: no colours on terminals.\n"
    ".TP\n"
    "\\fBCOLUMNS\\fR\n"
    "how wide a terminal is that does not say so itself.\n"
    ".SH EXIT STATUS\n"
    ".TP\n"
    "\\fB0\\fR\n"
    "what was wanted was done; a job that was followed has succeeded.\n"
    ".TP\n"
    "\\fB1\\fR\n"
    "it failed: a server, a disk, a job.\n"
    ".TP\n"
    "\\fB2\\fR\n"
    "what was asked cannot be done as it was asked; one line on stderr says why.\n"
    ".TP\n"
    "\\fB130\\fR\n"
    "Ctrl\\-C ended it; a job that was followed goes on.\n"
    ".SH EXAMPLES\n"
    ".EX\n"
    "tandem serve MODEL \\-\\-data\\-dir DIR\n"
    "tandem chat\n"
    "tandem tune rows.jsonl \\-\\-follow\n"
    ".EE\n";

int cmd_man(const struct opt *o)
{
    struct err e = ERR_INIT;
    struct buf page;
    char name[CMD_NAME_BYTES];
    buf_init(&page, PAGE_BYTES_MAX);
    buf_printf(&page,
               ".\\\" Made by `tandem man` of the table of options.\n"
               ".TH TANDEM 1 \"\" \"tandem %s\" \"User Commands\"\n",
               version_number());
    buf_str(&page, before);
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        put_command(&cmd, &page);
    }
    buf_str(&page, behind);
    int rc = buf_check(&page, "the page", &e);
    if (!rc)
        fputs(page.data, stdout);
    buf_release(&page);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
