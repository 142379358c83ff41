/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of --help: usage, what the command is for, then each section's options in two columns.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/opt.h"

enum { WIDTH = 80, COLUMN = 30 };

/* Words from column `at` on; lines break before WIDTH and begin at COLUMN. */
static void put_words(struct buf *out, const char *text, int column, size_t *at)
{
    for (const char *s = text; *s;) {
        size_t len = strcspn(s, " ");
        if (*at > (size_t)column && *at + 1 + len > WIDTH) {
            buf_printf(out, "\n%*s", column, "");
            *at = (size_t)column;
        } else if (*at > (size_t)column) {
            buf_char(out, ' ');
            ++*at;
        }
        buf_add(out, s, len);
        *at += len;
        s += len + strspn(s + len, " ");
    }
}

/* "  -n, --tokens N" */
static size_t put_flag(const struct opt_row *row, struct buf *out)
{
    size_t before = out->len;
    if (row->letter)
        buf_printf(out, "  -%c, --%s", row->letter, row->name);
    else if (row->type == OPT_BOOL && row->fallback && !strcmp(row->fallback, "true"))
        buf_printf(out, "      --[no-]%s", row->name);
    else
        buf_printf(out, "      --%s", row->name);
    if (row->type != OPT_BOOL)
        buf_printf(out, " %s", row->hint ? row->hint : row->type == OPT_SIZE ? "SIZE" : "VALUE");
    return out->len - before;
}

static void put_row(const struct opt_row *row, struct buf *out)
{
    char note[512], env[OPT_ENV_BYTES];
    bool shows = row->fallback && *row->fallback && row->type != OPT_BOOL;
    snprintf(note, sizeof note, "[%s%s%s%s]", opt_env(row, env), shows ? "; default " : "",
             shows ? row->fallback : "", row->type == OPT_LIST ? "; may be repeated" : "");
    size_t at = put_flag(row, out);
    if (at + 2 > COLUMN) {
        buf_char(out, '\n');
        at = 0;
    }
    buf_printf(out, "%*s", (int)(COLUMN - at), "");
    at = COLUMN;
    put_words(out, row->help, COLUMN, &at);
    put_words(out, note, COLUMN, &at);
    buf_char(out, '\n');
}

static bool reads_file(const struct opt_cmd *cmd)
{
    for (size_t i = 0; i < cmd->n_row; i++)
        if (opt_is_config(&cmd->row[i]))
            return true;
    return false;
}

static const char *section_of(const struct opt_cmd *cmd, size_t i)
{
    while (!cmd->row[i].section && i > 0)
        i--;
    return cmd->row[i].section ? cmd->row[i].section : "";
}

static bool is_first_of_section(const struct opt_cmd *cmd, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(section_of(cmd, k), section_of(cmd, i)) == 0)
            return false;
    return true;
}

/* A section's rows stand together, in whatever order the tables that they come from are joined. */
static void put_section(const struct opt_cmd *cmd, size_t first, struct buf *out)
{
    const char *name = section_of(cmd, first);
    buf_char(out, '\n');
    if (*name)
        buf_printf(out, "%s:\n", name);
    for (size_t i = first; i < cmd->n_row; i++)
        if (strcmp(section_of(cmd, i), name) == 0)
            put_row(&cmd->row[i], out);
}

void opt_help(const struct opt_cmd *cmd, struct buf *out)
{
    size_t at = 0;
    buf_printf(out, "Usage: tandem %s%s%s%s\n\n", cmd->name, *cmd->args ? " " : "", cmd->args,
               cmd->n_row ? " [OPTION]..." : "");
    put_words(out, cmd->about, 0, &at);
    buf_char(out, '\n');
    for (size_t i = 0; i < cmd->n_row; i++)
        if (is_first_of_section(cmd, i))
            put_section(cmd, i, out);
    if (cmd->n_row)
        buf_printf(out, "\nA flag overrides its variable%s.\n",
                   reads_file(cmd) ? ", which overrides the configuration file" : "");
}
