/* SPDX-License-Identifier: Apache-2.0
 *
 * For bash: one function. It finds the command, then asks three tables: the values of the flag
 * before the cursor, the command's flags, the second words of the first.
 */
#include <stdio.h>
#include <string.h>

#include "clients/cli/complete.h"

static void put_pattern(const char *cmd, const char *flag, struct buf *out)
{
    buf_printf(out, "    '%s %s')", cmd, flag);
}

static void put_value(const struct opt_cmd *cmd, const struct opt_row *row, struct buf *out)
{
    char flag[96], letter[] = {'-', row->letter, 0};
    snprintf(flag, sizeof flag, "--%s", row->name);
    for (int i = row->letter ? 0 : 1; i < 2; i++) {
        put_pattern(cmd->name, i ? flag : letter, out);
        switch (complete_value(row)) {
        case COMPLETE_CHOICE:
            buf_str(out, " COMPREPLY=($(compgen -W '");
            complete_words(row, out);
            buf_str(out, "' -- \"$cur\")); return ;;\n");
            break;
        case COMPLETE_FILE:
            buf_str(out, " COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n");
            break;
        default:
            buf_str(out, " return ;;\n");
            break;
        }
    }
}

static void put_values(struct buf *out)
{
    char name[CMD_NAME_BYTES];
    buf_str(out, "    case \"$cmd $prev\" in\n");
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        for (size_t r = 0; r < cmd.n_row; r++)
            if (complete_value(&cmd.row[r]) != COMPLETE_NONE)
                put_value(&cmd, &cmd.row[r], out);
    }
    buf_str(out, "    esac\n");
}

static void put_flags(struct buf *out)
{
    char name[CMD_NAME_BYTES];
    buf_str(out, "    local flags=\n    case \"$cmd\" in\n");
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        buf_printf(out, "    '%s') flags='--help", cmd.name);
        for (size_t r = 0; r < cmd.n_row; r++)
            buf_printf(out, " --%s", cmd.row[r].name);
        buf_str(out, "' ;;\n");
    }
    buf_str(out, "    esac\n");
}

/* The first words, or the second ones behind `first`. */
static void put_names(const char *first, struct buf *out)
{
    struct complete_word w = {0};
    while (complete_each(&w, first))
        buf_printf(out, " %s", w.text);
}

static void put_seconds(struct buf *out)
{
    struct complete_word w = {0};
    buf_str(out, "    local words=\n    case \"$cmd\" in\n");
    while (complete_each(&w, NULL)) {
        struct complete_word second = {0};
        if (!complete_each(&second, w.text))
            continue;
        buf_printf(out, "    '%s') words='", w.text);
        put_names(w.text, out);
        buf_str(out, "' ;;\n");
    }
    buf_str(out, "    esac\n");
}

void complete_bash(struct buf *out)
{
    buf_str(out, "# bash: source <(tandem completion bash)\n"
                 "_tandem() {\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                 "    local cmd=${COMP_WORDS[1]}\n"
                 "    COMPREPLY=()\n"
                 "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                 "        COMPREPLY=($(compgen -W '");
    put_names(NULL, out);
    buf_str(out, "' -- \"$cur\"))\n"
                 "        return\n"
                 "    fi\n"
                 "    if [ \"$COMP_CWORD\" -gt 2 ]; then\n"
                 "        case \"$cmd ${COMP_WORDS[2]}\" in\n"
                 "        ");
    complete_pairs(out);
    buf_str(out, ") cmd=\"$cmd ${COMP_WORDS[2]}\" ;;\n"
                 "        esac\n"
                 "    fi\n");
    put_values(out);
    put_flags(out);
    put_seconds(out);
    buf_str(out, "    case \"$cur\" in\n"
                 "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\")); return ;;\n"
                 "    esac\n"
                 "    if [ \"$COMP_CWORD\" -eq 2 ] && [ -n \"$words\" ]; then\n"
                 "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                 "        return\n"
                 "    fi\n"
                 "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
                 "}\n"
                 "complete -o filenames -F _tandem tandem\n");
}
