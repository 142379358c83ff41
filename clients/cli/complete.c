/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem completion SHELL`, and what the makers for the shells have in common.
 */
#include "clients/cli/complete.h"

#include <stdio.h>
#include <string.h>

enum { SCRIPT_BYTES_MAX = 1 << 20 };

const struct cmd_opt cmd_opt_completion = {0};

enum complete_value complete_value(const struct opt_row *row)
{
    const char *hint = row->hint ? row->hint : "";
    if (row->type == OPT_BOOL)
        return COMPLETE_NONE;
    if (row->type == OPT_CHOICE)
        return COMPLETE_CHOICE;
    if (opt_is_config(row))
        return COMPLETE_FILE;
    return !strcmp(hint, "FILE") || !strcmp(hint, "DIR") || !strcmp(hint, "PATH") ? COMPLETE_FILE
                                                                                  : COMPLETE_ANY;
}

bool complete_takes_file(const struct opt_cmd *cmd)
{
    return strstr(cmd->args, "FILE") || strstr(cmd->args, "MODEL") || strstr(cmd->args, "CONFIG") ||
           strstr(cmd->args, "DIR");
}

const char *complete_second(const char *name)
{
    const char *space = strchr(name, ' ');
    return space ? space + 1 : NULL;
}

bool complete_each(struct complete_word *w, const char *first)
{
    char last[CMD_NAME_BYTES];
    snprintf(last, sizeof last, "%s", w->text && !first ? w->text : "");
    while (w->next < cmd_count()) {
        struct opt_cmd cmd = cmd_get(w->next++, w->name);
        size_t n = strcspn(w->name, " ");
        const char *second = complete_second(w->name);
        w->text = first ? second : w->name;
        w->about = cmd.about;
        if (first && second && strlen(first) == n && !memcmp(first, w->name, n))
            return true;
        w->name[n] = 0;
        if (!first && strcmp(last, w->name) != 0)
            return true;
    }
    return false;
}

void complete_pairs(struct buf *out)
{
    char name[CMD_NAME_BYTES];
    bool is_first = true;
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        if (!complete_second(cmd.name))
            continue;
        buf_printf(out, "%s'%s'", is_first ? "" : "|", cmd.name);
        is_first = false;
    }
}

void complete_words(const struct opt_row *row, struct buf *out)
{
    for (const char *s = row->hint; *s; s++)
        buf_char(out, *s == '|' ? ' ' : *s);
}

void complete_quote(const char *text, const char *also, struct buf *out)
{
    buf_char(out, '\'');
    for (const char *s = text; *s; s++) {
        if (*s == '\'') {
            buf_str(out, "'\\''");
            continue;
        }
        if (strchr(also, *s))
            buf_char(out, '\\');
        buf_char(out, *s);
    }
    buf_char(out, '\'');
}

int cmd_completion(const struct opt *o)
{
    static const struct {
        const char *name;
        void (*make)(struct buf *out);
    } shell[] = {{"bash", complete_bash}, {"zsh", complete_zsh}, {"fish", complete_fish}};
    struct err e = ERR_INIT;
    for (size_t i = 0; i < sizeof shell / sizeof *shell; i++) {
        if (strcmp(shell[i].name, o->arg[0]) != 0)
            continue;
        struct buf script;
        buf_init(&script, SCRIPT_BYTES_MAX);
        shell[i].make(&script);
        int rc = buf_check(&script, "the script", &e);
        if (!rc)
            fputs(script.data, stdout);
        buf_release(&script);
        return rc ? cmd_fail(o, &e) : CMD_GOOD;
    }
    err_set(&e, ERR_BAD_INPUT, "\"%.40s\" is none of bash, zsh, fish", o->arg[0]);
    return cmd_fail(o, &e);
}
