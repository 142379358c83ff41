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

/* 'serve:Serve a model', for each first word, or for the second words behind `first`. */
static void put_names(const char *first, struct buf *out)
{
    struct complete_word w = {0};
    while (complete_each(&w, first)) {
        struct buf item;
        buf_init(&item, 1 << 16);
        buf_printf(&item, "%s:%s", w.text, w.about);
        buf_char(out, ' ');
        complete_quote(item.data ? item.data : "", "", out);
        buf_release(&item);
    }
}

static void put_seconds(struct buf *out)
{
    struct complete_word w = {0};
    while (complete_each(&w, NULL)) {
        struct complete_word second = {0};
        if (!complete_each(&second, w.text))
            continue;
        buf_printf(out, "        %s) more=(", w.text);
        put_names(w.text, out);
        buf_str(out, " ) ;;\n");
    }
}

void complete_zsh(struct buf *out)
{
    char name[CMD_NAME_BYTES];
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
    complete_pairs(out);
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
