/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of --help: usage, what the command is for, then each section's options in two columns.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/opt.h"

enum { COLUMN = 30, INDENT = 8 };

void opt_words(struct buf *out, const char *text, int column, int width, size_t *at)
{
    for (const char *s = text; *s;) {
        size_t len = strcspn(s, " ");
        if (*at > (size_t)column && *at + 1 + len > (size_t)width) {
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

/* A list of choices may be wider than the page: it breaks behind a bar. */
static size_t put_hint(const char *hint, int width, size_t at, struct buf *out)
{
    buf_char(out, ' ');
    at++;
    for (size_t n; *hint; hint += n, at += n) {
        n = strcspn(hint, "|");
        n += hint[n] == '|';
        if (at + n > (size_t)width && at > INDENT) {
            buf_printf(out, "\n%*s", INDENT, "");
            at = INDENT;
        }
        buf_add(out, hint, n);
    }
    return at;
}

/* "  -n, --tokens N" */
static size_t put_flag(const struct opt_row *row, int width, struct buf *out)
{
    size_t before = out->len;
    if (row->letter)
        buf_printf(out, "  -%c, --%s", row->letter, row->name);
    else if (row->type == OPT_BOOL && row->fallback && !strcmp(row->fallback, "true"))
        buf_printf(out, "      --[no-]%s", row->name);
    else
        buf_printf(out, "      --%s", row->name);
    size_t at = out->len - before;
    if (row->type == OPT_BOOL)
        return at;
    return put_hint(row->hint               ? row->hint
                    : row->type == OPT_SIZE ? "SIZE"
                                            : "VALUE",
                    width, at, out);
}

static void put_row(const struct opt_row *row, int width, struct buf *out)
{
    char note[512], env[OPT_ENV_BYTES];
    bool shows = row->fallback && *row->fallback && row->type != OPT_BOOL;
    snprintf(note, sizeof note, "[%s%s%s%s]", opt_env(row, env), shows ? "; default " : "",
             shows ? row->fallback : "", row->type == OPT_LIST ? "; may be repeated" : "");
    size_t at = put_flag(row, width, out);
    if (at + 2 > COLUMN) {
        buf_char(out, '\n');
        at = 0;
    }
    buf_printf(out, "%*s", (int)(COLUMN - at), "");
    at = COLUMN;
    opt_words(out, row->help, COLUMN, width, &at);
    opt_words(out, note, COLUMN, width, &at);
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
static void put_section(const struct opt_cmd *cmd, size_t first, int width, struct buf *out)
{
    const char *name = section_of(cmd, first);
    buf_char(out, '\n');
    if (*name)
        buf_printf(out, "%s:\n", name);
    for (size_t i = first; i < cmd->n_row; i++)
        if (strcmp(section_of(cmd, i), name) == 0)
            put_row(&cmd->row[i], width, out);
}

void opt_help(const struct opt_cmd *cmd, int width, struct buf *out)
{
    size_t at = 0;
    buf_printf(out, "Usage: tandem %s%s%s%s\n\n", cmd->name, *cmd->args ? " " : "", cmd->args,
               cmd->n_row ? " [OPTION]..." : "");
    opt_words(out, cmd->about, 0, width, &at);
    buf_char(out, '\n');
    for (size_t i = 0; i < cmd->n_row; i++)
        if (is_first_of_section(cmd, i))
            put_section(cmd, i, width, out);
    if (!cmd->n_row)
        return;
    at = 0;
    buf_char(out, '\n');
    opt_words(out,
              reads_file(cmd)
                  ? "A flag overrides its variable, which overrides the configuration file."
                  : "A flag overrides its variable.",
              0, width, &at);
    buf_char(out, '\n');
}
