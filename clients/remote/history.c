/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of the file is a line that was typed, its newlines and backslashes escaped. A file that
 * has grown is cut to what is of use when it is read.
 */
#include "clients/remote/history.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/fs.h"
#include "engine/base/mem.h"

enum { FILE_BYTES_MAX = 64 << 20, KEPT_BYTES = 4 << 20, PATH_BYTES = 4096 };

static int find_path(struct history *h, struct err *e)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char path[PATH_BYTES];
    if (state && state[0] == '/')
        snprintf(path, sizeof path, "%s/tandem", state);
    else if (home && home[0] == '/')
        snprintf(path, sizeof path, "%s/.local/state/tandem", home);
    else
        return err_set(e, ERR_NOT_FOUND, "neither XDG_STATE_HOME nor HOME is a folder");
    if (fs_mkdirs(path, e))
        return -1;
    size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/chat_history");
    h->path = xstrdup(path);
    return 0;
}

static void escape(struct buf *out, const char *line)
{
    for (; *line; line++) {
        if (*line == '\n' || *line == '\\')
            buf_char(out, '\\');
        buf_char(out, *line == '\n' ? 'n' : *line);
    }
    buf_char(out, '\n');
}

/* In its place: a text does not get longer. */
static char *unescape(char *line)
{
    char *to = line;
    for (const char *at = line; *at; at++) {
        bool is_escaped = *at == '\\' && at[1];
        at += is_escaped;
        *to++ = is_escaped && *at == 'n' ? '\n' : *at;
    }
    *to = 0;
    return line;
}

static void take_lines(struct edit *edit, char *text)
{
    for (char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        *end = 0;
        edit_remember(edit, unescape(text));
    }
}

/* The lines that are remembered take the place of all that the file had. */
static void rewrite(const struct history *h, const struct edit *edit)
{
    struct buf all;
    buf_init(&all, FILE_BYTES_MAX);
    for (size_t i = 0; i < edit->n_history; i++)
        escape(&all, edit->history[i]);
    int fd = all.failed ? -1 : open(h->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd >= 0 && write(fd, all.data, all.len) != (ssize_t)all.len)
        unlink(h->path);
    if (fd >= 0)
        close(fd);
    buf_release(&all);
}

int history_init(struct history *h, struct edit *edit, struct err *e)
{
    struct buf text;
    struct err why = ERR_INIT;
    int fd;
    *h = (struct history){.path = NULL};
    if (find_path(h, e))
        return -1;
    if ((fd = open(h->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR)) < 0) {
        err_sys(e, "%s", h->path);
        history_release(h);
        return -1;
    }
    close(fd);
    buf_init(&text, FILE_BYTES_MAX);
    buf_str(&text, "");
    if (!fs_read(h->path, &text, &why) && !text.failed) {
        size_t n = text.len;
        take_lines(edit, text.data);
        if (n > KEPT_BYTES)
            rewrite(h, edit);
    }
    buf_release(&text);
    return 0;
}

void history_release(struct history *h)
{
    free(h->path);
    h->path = NULL;
}

void history_add(struct history *h, const char *line)
{
    struct buf out;
    if (!h->path || !line[strspn(line, " \t\n")] || *line == ' ')
        return;
    buf_init(&out, FILE_BYTES_MAX);
    escape(&out, line);
    int fd = open(h->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0 && !out.failed && write(fd, out.data, out.len) != (ssize_t)out.len)
        history_release(h); /* the disk is full: no more is tried */
    if (fd >= 0)
        close(fd);
    buf_release(&out);
}
