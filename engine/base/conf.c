/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is read whole; lines are cut and ended in place.
 */
#include "engine/base/conf.h"

#include <stdbool.h>
#include <string.h>

#include "engine/base/fs.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Without the spaces at both ends. */
static char *trim(char *s)
{
    while (is_space(*s))
        s++;
    for (char *end = s + strlen(s); end > s && is_space(end[-1]);)
        *--end = 0;
    return s;
}

static void cut_comment(char *line)
{
    bool is_quoted = false;
    for (char *s = line; *s; s++) {
        if (*s == '"')
            is_quoted = !is_quoted;
        else if (*s == '#' && !is_quoted && (s == line || is_space(s[-1])))
            *s = 0;
        if (!*s)
            return;
    }
}

static int unquote(char **value, struct err *e)
{
    char *s = *value;
    size_t n = strlen(s);
    if (*s != '"')
        return 0;
    if (n < 2 || s[n - 1] != '"')
        return err_set(e, ERR_BAD_INPUT, "a quote is not closed at the end of the line");
    s[n - 1] = 0;
    *value = s + 1;
    return 0;
}

static int take_line(char *line, conf_fn *fn, void *ctx, struct err *e)
{
    cut_comment(line);
    char *name = trim(line), *equals = strchr(name, '=');
    if (!*name)
        return 0;
    if (!equals)
        return err_set(e, ERR_BAD_INPUT, "\"%.40s\" is not of the form name = value", name);
    *equals = 0;
    char *value = trim(equals + 1);
    name = trim(name);
    if (!*name)
        return err_set(e, ERR_BAD_INPUT, "no name before the =");
    return unquote(&value, e) ? -1 : fn(ctx, name, value, e);
}

int conf_read(const char *path, conf_fn *fn, void *ctx, struct err *e)
{
    struct buf b;
    buf_init(&b, CONF_MAX_BYTES);
    int rc = fs_read(path, &b, e);
    if (!rc && b.len && memchr(b.data, 0, b.len))
        rc = err_set(e, ERR_BAD_INPUT, "%s: has a zero byte and is no text", path);
    int n_line = 0;
    for (char *line = b.data, *next; !rc && line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        n_line++;
        rc = take_line(line, fn, ctx, e);
        if (rc)
            err_wrap(e, "%s:%d", path, n_line);
    }
    buf_release(&b);
    return rc;
}
