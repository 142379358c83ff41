/* SPDX-License-Identifier: Apache-2.0
 *
 * For fish: a line for each command and each flag, with the condition under which it is offered.
 */
#include <string.h>

#include "clients/cli/complete.h"

static bool is_first_of(const char *name)
{
    char other[CMD_NAME_BYTES];
    size_t n = strlen(name);
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, other);
        if (complete_second(cmd.name) && strcspn(cmd.name, " ") == n && !memcmp(cmd.name, name, n))
            return true;
    }
    return false;
}

/* "the command was typed, and no other that begins as it does". */
static void put_condition(const struct opt_cmd *cmd, struct buf *out)
{
    const char *second = complete_second(cmd->name);
    buf_printf(out, " -n '__fish_seen_subcommand_from %.*s", (int)strcspn(cmd->name, " "),
               cmd->name);
    if (second) {
        buf_printf(out, "; and __fish_seen_subcommand_from %s", second);
    } else if (is_first_of(cmd->name)) {
        buf_str(out, "; and not __fish_seen_subcommand_from");
        for (struct complete_word w = {0}; complete_each(&w, cmd->name);)
            buf_printf(out, " %s", w.text);
    }
    buf_char(out, '\'');
}

static void put_row(const struct opt_cmd *cmd, const struct opt_row *row, struct buf *out)
{
    buf_str(out, "complete -c tandem");
    put_condition(cmd, out);
    buf_printf(out, " -l %s", row->name);
    if (row->letter)
        buf_printf(out, " -s %c", row->letter);
    switch (complete_value(row)) {
    case COMPLETE_NONE:
        break;
    case COMPLETE_ANY:
        buf_str(out, " -x");
        break;
    case COMPLETE_FILE:
        buf_str(out, " -r -F");
        break;
    case COMPLETE_CHOICE:
        buf_str(out, " -x -a '");
        complete_words(row, out);
        buf_char(out, '\'');
        break;
    }
    buf_str(out, " -d ");
    complete_quote(row->help, "\\", out);
    buf_char(out, '\n');
}

/* The word itself: a first one alone, or a second behind its first. */
static void put_name(const struct opt_cmd *cmd, struct buf *out)
{
    const char *second = complete_second(cmd->name);
    int n = (int)strcspn(cmd->name, " ");
    if (second) {
        buf_printf(out,
                   "complete -c tandem -n '__fish_seen_subcommand_from %.*s; and test (count "
                   "(commandline -opc)) -eq 2' -a %s -d ",
                   n, cmd->name, second);
    } else {
        buf_printf(out, "complete -c tandem -n __fish_use_subcommand -a %s -d ", cmd->name);
    }
    complete_quote(cmd->about, "\\", out);
    buf_char(out, '\n');
}

void complete_fish(struct buf *out)
{
    char name[CMD_NAME_BYTES];
    buf_str(out, "# fish: tandem completion fish | source\n"
                 "complete -c tandem -f\n"
                 "complete -c tandem -n __fish_use_subcommand -a bench -d 'Measure'\n");
    for (size_t i = 0; i < cmd_count(); i++) {
        struct opt_cmd cmd = cmd_get(i, name);
        put_name(&cmd, out);
        if (complete_takes_file(&cmd)) {
            buf_str(out, "complete -c tandem -F");
            put_condition(&cmd, out);
            buf_char(out, '\n');
        }
        for (size_t r = 0; r < cmd.n_row; r++)
            put_row(&cmd, &cmd.row[r], out);
    }
}
