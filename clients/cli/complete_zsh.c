/* SPDX-License-Identifier: Apache-2.0
 *
 * For zsh: the commands with their lines, and _arguments for each.
 */
#include <stdio.h>
#include <string.h>

#include "clients/cli/complete.h"

/* [what it does]:HINT:how */
static void put_row(const struct opt_row *row, const char *flag, struct buf *out)
{
    struct buf spec;
    buf_init(&spec, 1 << 16);
    buf_printf(&spec, "%s%s[", row->type == OPT_LIST ? "*" : "", flag);
    for (const char *s = row->help; *s; s++)
        buf_printf(&spec, "%s%c", strchr("[]:\\", *s) ? "\\" : "", *s);
    buf_char(&spec, ']');
    switch (complete_value(row)) {
    case COMPLETE_NONE:
        break;
    case COMPLETE_ANY:
        buf_str(&spec, ": : ");
        break;
    case COMPLETE_FILE:
        buf_str(&spec, ":file:_files");
        break;
    case COMPLETE_CHOICE:
        buf_str(&spec, ":one of:(");
        complete_words(row, &spec);
        buf_char(&spec, ')');
        break;
    }
    buf_str(out, " \\\n            ");
    complete_quote(spec.data ? spec.data : "", "", out);
    buf_release(&spec);
}

static void put_command(const struct opt_cmd *cmd, struct buf *out)
{
    buf_printf(out, "    '%s')\n        _arguments '--help[show the options]'", cmd->name);
    for (size_t r = 0; r < cmd->n_row; r++) {
        char flag[80], letter[] = {'-', cmd->row[r].letter, 0};
        snprintf(flag, sizeof flag, "--%s", cmd->row[r].name);
        put_row(&cmd->row[r], flag, out);
        if (cmd->row[r].letter)
            put_row(&cmd->row[r], letter, out);
    }
    if (complete_takes_file(cmd))
        buf_str(out, " \\\n            '*:file:_files'");
    buf_str(out, "\n        ;;\n");
}

/* 'serve:Serve a model', once for each first word, or for the second words behind `first`. */
static void put_names(const char *first, struct buf *out)
{
    char name[CMD_NAME_BYTES], last[CMD_NAME_BYTES] = "";
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        const char *second = complete_second(cmd.name);
        size_t n = strcspn(cmd.name, " ");
        bool is_same = strlen(last) == n && !memcmp(last, cmd.name, n);
        bool fits = first ? second && strlen(first) == n && !memcmp(first, cmd.name, n) : !is_same;
        struct buf item;
        buf_init(&item, 1 << 16);
        buf_printf(&item, "%.*s:%s", first ? (int)(second ? strlen(second) : 0) : (int)n,
                   first ? (second ? second : "") : cmd.name, cmd.about);
        if (fits) {
            buf_char(out, ' ');
            complete_quote(item.data ? item.data : "", "", out);
        }
        buf_release(&item);
        snprintf(last, sizeof last, "%.*s", (int)n, cmd.name);
    }
}

static void put_seconds(struct buf *out)
{
    char name[CMD_NAME_BYTES], first[CMD_NAME_BYTES], last[CMD_NAME_BYTES] = "";
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        snprintf(first, sizeof first, "%.*s", (int)strcspn(cmd.name, " "), cmd.name);
        if (!complete_second(cmd.name) || !strcmp(first, last))
            continue;
        buf_printf(out, "        %s) more=(", first);
        put_names(first, out);
        buf_str(out, " ) ;;\n");
        snprintf(last, sizeof last, "%s", first);
    }
}

void complete_zsh(struct buf *out)
{
    char name[CMD_NAME_BYTES];
    bool is_first = true;
    buf_str(out,
            "#compdef tandem\n"
            "# zsh: as a file _tandem in a folder of $fpath, or source <(tandem completion zsh)\n"
            "_tandem() {\n"
            "    local -a commands more\n"
            "    commands=(");
    put_names(NULL, out);
    buf_str(out, " )\n"
                 "    if (( CURRENT == 2 )); then\n"
                 "        _describe -t commands command commands\n"
                 "        return\n"
                 "    fi\n"
                 "    local cmd=$words[2]\n"
                 "    if (( CURRENT == 3 )); then\n"
                 "        case $cmd in\n");
    put_seconds(out);
    buf_str(out, "        esac\n"
                 "        (( $#more )) && _describe -t commands command more\n"
                 "    fi\n"
                 "    shift words; (( CURRENT-- ))\n"
                 "    case \"$cmd $words[2]\" in\n"
                 "    ");
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        if (complete_second(cmd.name))
            buf_printf(out, "%s'%s'", is_first ? "" : "|", cmd.name);
        is_first = is_first && !complete_second(cmd.name);
    }
    buf_str(out, ")\n"
                 "        if (( CURRENT > 2 )); then\n"
                 "            cmd=\"$cmd $words[2]\"; shift words; (( CURRENT-- ))\n"
                 "        fi ;;\n"
                 "    esac\n"
                 "    case $cmd in\n");
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        put_command(&cmd, out);
    }
    buf_str(out,
            "    esac\n"
            "}\n"
            "if [ \"$funcstack[1]\" = _tandem ]; then _tandem \"$@\"; else compdef _tandem tandem; "
            "fi\n");
}
