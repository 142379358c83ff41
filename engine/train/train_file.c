/* SPDX-License-Identifier: Apache-2.0
 *
 * One line at a time is in memory, with its JSON tree. A line that is too long is not read to its
 * end.
 */
#include "engine/train/train_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"

#define LINE_TOO_LONG "it has more than the %zu bytes that a line may have here"

enum { ROW_BYTES_MAX = 512 << 20 };

/* ---- lines --------------------------------------------------------------------------------- */

struct lines {
    FILE *in;
    char block[64 << 10]; /* what was read last; [at, n) is still to be looked at */
    size_t at, n;
    struct buf line; /* the one at hand, without its end; longer than its ceiling: failed */
    struct train_file *f;
};

int train_file_open(const char *path, struct err *e)
{
    struct err why = ERR_INIT;
    int fd = fs_open(path, &why);
    if (fd >= 0)
        return fd;
    return why.code == ERR_BAD_INPUT
               ? err_set(e, ERR_UNSUPPORTED, "the training file is no regular file")
               : err_sys(e, "the training file cannot be read");
}

static int lines_init(struct lines *l, int fd, size_t max, struct train_file *f, struct err *e)
{
    *f = (struct train_file){0};
    l->in = fd < 0 ? NULL : fdopen(fd, "rb");
    l->f = f;
    l->at = l->n = 0;
    buf_init(&l->line, max);
    if (l->in || fd < 0)
        return l->in ? 0 : -1;
    err_sys(e, "the training file cannot be read");
    close(fd);
    return -1;
}

static void lines_release(struct lines *l)
{
    if (l->in)
        fclose(l->in);
    buf_release(&l->line);
}

static bool refill(struct lines *l)
{
    l->at = 0;
    l->n = fread(l->block, 1, sizeof l->block, l->in);
    return l->n > 0;
}

/* Reads a line, however it ends; false: there is none. */
static bool take_line(struct lines *l)
{
    bool is_there = false, is_end = false;
    buf_clear(&l->line);
    while (!is_end && (l->at < l->n || refill(l))) {
        const char *from = l->block + l->at, *end = memchr(from, '\n', l->n - l->at);
        size_t n = end ? (size_t)(end - from) : l->n - l->at;
        buf_add(&l->line, from, n);
        is_end = end;
        is_there = true;
        l->at += n + is_end;
    }
    l->f->n_line += is_there;
    return is_there;
}

static void drop_mark(struct buf *line)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t n = sizeof mark - 1;
    if (line->len < n || memcmp(line->data, mark, n) != 0)
        return;
    memmove(line->data, line->data + n, line->len - n);
    line->len -= n;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* 1: the next line that is not blank; 0: there is none. */
static int next_example(struct lines *l, struct err *e)
{
    while (take_line(l)) {
        if (l->f->n_line == 1 && !l->line.failed)
            drop_mark(&l->line);
        while (!l->line.failed && l->line.len && is_blank(l->line.data[l->line.len - 1]))
            l->line.len--;
        if (l->line.len == 0 && !l->line.failed)
            continue;
        l->f->n_example++;
        return 1;
    }
    return ferror(l->in) ? err_set(e, ERR_IO, "the training file cannot be read") : 0;
}

/* Of a full disk, or memory, no row is guilty. */
static bool is_of_row(enum err_code code)
{
    return code == ERR_BAD_INPUT || code == ERR_TOO_LARGE || code == ERR_UNSUPPORTED;
}

/* "Example 7 (line 9): what". */
static int at_example(struct train_file *f, struct err *e)
{
    char line[40] = "";
    if (!is_of_row(e->code))
        return -1;
    if (f->fault == TRAIN_FAULT_NONE)
        f->fault = TRAIN_FAULT_ROW;
    if (f->n_example == 0)
        return -1;
    if (f->n_line != f->n_example)
        snprintf(line, sizeof line, " (line %lld)", (long long)f->n_line);
    return err_wrap(e, "Invalid file format. Example %lld%s", (long long)f->n_example, line);
}

static int check_length(struct lines *l, struct err *e)
{
    if (!l->line.failed)
        return 0;
    err_set(e, ERR_BAD_INPUT, LINE_TOO_LONG, l->line.max_bytes);
    return at_example(l->f, e);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static int add_text(struct dataset *d, const struct train_example *x, struct err *e)
{
    return dataset_add_text(d, x->prompt, x->n_prompt, x->completion, x->n_completion, e);
}

static int add_chat(struct dataset *d, const struct train_example *x, struct err *e)
{
    return dataset_add_chat(d, &x->messages, x->has_tools ? &x->tools : NULL, x->weight,
                            x->n_weight, e);
}

static int add_pair(struct dataset *d, const struct train_example *x, struct err *e)
{
    return dataset_add_pair(d, &x->messages, &x->other, x->n_shared,
                            x->has_tools ? &x->tools : NULL, e);
}

static int add_prompt(struct dataset *d, const struct train_example *x, const char *line, size_t n,
                      struct err *e)
{
    return dataset_add_prompt(d, &x->messages, x->has_tools ? &x->tools : NULL, line, n, e);
}

/* A row of another method's format. */
static int check_method(const struct dataset *d, const struct train_example *x,
                        struct train_file *f, struct err *e)
{
    bool is_pair = x->kind == TRAIN_PREFERENCE;
    if (is_pair == d->opt.has_pairs)
        return 0;
    f->fault = TRAIN_FAULT_FORMAT;
    if (d->opt.has_verdicts)
        return err_set(e, ERR_BAD_INPUT,
                       "it is of the fine-tune-preference format, but the loss is 'x_kto': its "
                       "rows have 'messages', or 'prompt' and 'completion', and a 'label'.");
    return is_pair ? err_set(e, ERR_BAD_INPUT,
                             "it is of the fine-tune-preference format, but the method is "
                             "'supervised': rows of preferences are for the method 'dpo'.")
                   : err_set(e, ERR_BAD_INPUT,
                             "it is of the fine-tune-%s format, but the method is 'dpo': its rows "
                             "have 'input', 'preferred_output' and 'non_preferred_output'.",
                             x->kind == TRAIN_CHAT ? "chat" : "completions");
}

static int add_example(struct dataset *d, const struct train_example *x, const char *line, size_t n,
                       struct err *e)
{
    d->weight = x->row_weight > 0 ? (float)x->row_weight : 1;
    d->is_undesirable = x->is_undesirable;
    d->teacher = x->teacher;
    d->n_teacher = x->n_teacher;
    switch (x->kind) {
    case TRAIN_CHAT:
        return add_chat(d, x, e);
    case TRAIN_TEXT:
        return add_text(d, x, e);
    case TRAIN_PREFERENCE:
        return add_pair(d, x, e);
    case TRAIN_PROMPT:
        return add_prompt(d, x, line, n, e);
    case TRAIN_TEXTS:
        return dataset_add_texts(d, x, e);
    }
    return 0;
}

static int add_row(struct dataset *d, const struct train_reader *r, const char *line, size_t n,
                   struct arena *a, struct train_file *f, struct err *e)
{
    const struct template *t = d->opt.template;
    struct train_example x;
    struct err why = ERR_INIT;
    const struct train_wants wants = {.knows_developer = t && template_mentions(t, "developer"),
                                      .has_pairs = d->opt.has_pairs,
                                      .has_verdicts = d->opt.has_verdicts,
                                      .has_prompts = d->opt.n_sample > 0,
                                      .has_anchors = d->opt.texts.loss == TRAIN_CONTRAST,
                                      .has_labels = d->opt.texts.n_label > 0};
    if (r->fn(r->ctx, a, line, n, wants, &x, e))
        return -1;
    if (check_method(d, &x, f, e))
        return -1;
    f->n_chat += x.kind != TRAIN_TEXT && x.kind != TRAIN_TEXTS;
    int rc = add_example(d, &x, line, n, &why);
    if (rc && why.code == ERR_TOO_LARGE && d->opt.longer == DATASET_REFUSE)
        return dataset_leave_out(d, f->n_example, e);
    return rc ? err_set(e, why.code, "%s", why.msg) : 0;
}

int train_file_add(struct dataset *d, const struct train_reader *r, const char *line, size_t n,
                   struct arena *a, struct train_file *f, struct err *e)
{
    return add_row(d, r, line, n, a, f, e) ? at_example(f, e) : 0;
}

int train_file_read(int fd, const struct train_reader *r, struct dataset *d, struct train_file *f,
                    struct err *e)
{
    struct arena arena;
    struct lines l;
    int rc = lines_init(&l, fd, TRAIN_FILE_LINE_MAX, f, e);
    arena_init(&arena, ROW_BYTES_MAX);
    while (!rc && (rc = next_example(&l, e)) == 1) {
        d->example = f->n_example;
        rc = check_length(&l, e) || train_file_add(d, r, l.line.data, l.line.len, &arena, f, e) ? -1
                                                                                                : 0;
        arena_reset(&arena);
    }
    arena_release(&arena);
    lines_release(&l);
    return rc;
}

int train_file_line(int fd, int64_t example, size_t max, struct buf *out, struct train_file *f,
                    struct err *e)
{
    struct lines l;
    int rc = lines_init(&l, fd, max, f, e);
    while (!rc && (rc = next_example(&l, e)) == 1 && f->n_example < example)
        rc = 0;
    if (rc == 0)
        rc = err_set(e, ERR_BAD_INPUT, "The file has %lld examples.", (long long)f->n_example);
    else if (rc == 1)
        rc = check_length(&l, e);
    if (!rc)
        buf_add(out, l.line.data, l.line.len);
    lines_release(&l);
    return rc;
}

/* ---- one call a line ----------------------------------------------------------------------- */

struct train_scan {
    struct lines lines;
    struct train_file f;
};

struct train_scan *train_scan_new(int fd, struct err *e)
{
    struct train_scan *s = xcalloc(1, sizeof *s);
    if (lines_init(&s->lines, fd, TRAIN_FILE_LINE_MAX, &s->f, e) == 0)
        return s;
    train_scan_free(s);
    return NULL;
}

void train_scan_free(struct train_scan *s)
{
    if (s)
        lines_release(&s->lines);
    free(s);
}

int train_scan_next(struct train_scan *s, struct train_file *f, const char **line, size_t *n,
                    struct err *e)
{
    int rc = next_example(&s->lines, e);
    bool is_long = rc == 1 && s->lines.line.failed;
    *f = s->f;
    *line = s->lines.line.data;
    *n = s->lines.line.len;
    if (!is_long)
        return rc;
    f->fault = TRAIN_FAULT_ROW;
    return err_set(e, ERR_BAD_INPUT, LINE_TOO_LONG, s->lines.line.max_bytes);
}
