/* SPDX-License-Identifier: Apache-2.0
 *
 * One line at a time is in memory, with its JSON tree. A line that is too long is not read to its
 * end.
 */
#include "server/jobs/train_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/serve/resident.h"

enum { ROW_BYTES_MAX = 512 << 20 };

struct dataset_options train_file_options(const struct resident *on, int64_t created_s)
{
    return (struct dataset_options){.tokenizer = on->tokenizer,
                                    .template = on->template,
                                    .max_tok = on->model->ctx,
                                    .longer = DATASET_CUT,
                                    .now = clock_local_s(created_s),
                                    .end_id = on->dir.generation.eos,
                                    .n_end_id = on->dir.generation.n_eos};
}

/* ---- lines --------------------------------------------------------------------------------- */

struct lines {
    FILE *in;
    char block[64 << 10]; /* what was read last; [at, n) is still to be looked at */
    size_t at, n;
    struct buf line; /* the one at hand, without its end; longer than its ceiling: failed */
    struct train_file *f;
};

static int lines_init(struct lines *l, const char *path, size_t max, struct train_file *f,
                      struct api_error *e)
{
    *f = (struct train_file){0};
    l->in = fopen(path, "rb");
    l->f = f;
    l->at = l->n = 0;
    buf_init(&l->line, max);
    if (l->in)
        return 0;
    struct err why = ERR_INIT;
    err_sys(&why, "the training file cannot be read");
    return api_fail_err(e, &why, "training_file");
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
static int next_example(struct lines *l, struct api_error *e)
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
    return ferror(l->in)
               ? api_fail(e, 500, NULL, "training_file", "The training file cannot be read.")
               : 0;
}

/* "Example 7 (line 9): what"; the param of a fault in a file is the file. */
static int at_example(const struct train_file *f, struct api_error *e)
{
    char what[sizeof e->message], line[40] = "";
    if (f->n_example == 0)
        return -1;
    snprintf(what, sizeof what, "%s", e->message);
    if (f->n_line != f->n_example)
        snprintf(line, sizeof line, " (line %lld)", (long long)f->n_line);
    snprintf(e->message, sizeof e->message, "Invalid file format. Example %lld%s: %.420s",
             (long long)f->n_example, line, what);
    snprintf(e->param, sizeof e->param, "training_file");
    if (!e->code || strcmp(e->code, "invalid_file_format") != 0)
        e->code = "invalid_training_file";
    return -1;
}

static int check_length(const struct lines *l, struct api_error *e)
{
    if (!l->line.failed)
        return 0;
    api_fail(e, 400, NULL, NULL, "it has more than the %zu bytes that a line may have here",
             l->line.max_bytes);
    return at_example(l->f, e);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static int add_row(struct dataset *d, const char *line, size_t n, struct arena *a,
                   struct train_file *f, struct api_error *e)
{
    const struct template *t = d->opt.template;
    struct api_train_row row;
    struct err why = ERR_INIT;
    int rc;
    if (api_train_row(a, line, n, t && template_mentions(t, "developer"), &row, e))
        return -1;
    if (row.kind == API_TRAIN_PREFERENCE)
        return api_fail(e, 400, "invalid_file_format", NULL,
                        "it is of the fine-tune-preference format, but the method is "
                        "'supervised': rows of preferences are for the method 'dpo'.");
    if (row.kind == API_TRAIN_CHAT) {
        f->n_chat++;
        rc = dataset_add_chat(d, &row.messages, row.has_tools ? &row.tools : NULL, row.weight,
                              row.n_weight, &why);
    } else {
        f->n_text++;
        rc = dataset_add_text(d, row.prompt, row.n_prompt, row.completion, row.n_completion, &why);
    }
    if (rc && why.code == ERR_TOO_LARGE && d->opt.longer == DATASET_REFUSE) {
        vec_push(&d->left_out, f->n_example);
        return 0;
    }
    return rc ? api_fail_err(e, &why, row.kind == API_TRAIN_CHAT ? "messages" : "prompt") : 0;
}

int train_file_add(struct dataset *d, const char *line, size_t n, struct arena *a,
                   struct train_file *f, struct api_error *e)
{
    return add_row(d, line, n, a, f, e) ? at_example(f, e) : 0;
}

int train_file_read(const char *path, struct dataset *d, struct train_file *f, struct api_error *e)
{
    struct arena arena;
    struct lines l;
    int rc = lines_init(&l, path, TRAIN_FILE_LINE_MAX, f, e);
    arena_init(&arena, ROW_BYTES_MAX);
    while (!rc && (rc = next_example(&l, e)) == 1) {
        d->example = f->n_example;
        rc = check_length(&l, e) || train_file_add(d, l.line.data, l.line.len, &arena, f, e) ? -1
                                                                                             : 0;
        arena_reset(&arena);
    }
    arena_release(&arena);
    lines_release(&l);
    return rc;
}

int train_file_line(const char *path, int64_t example, size_t max, struct buf *out,
                    struct train_file *f, struct api_error *e)
{
    struct lines l;
    int rc = lines_init(&l, path, max, f, e);
    while (!rc && (rc = next_example(&l, e)) == 1 && f->n_example < example)
        rc = 0;
    if (rc == 0)
        rc = api_fail(e, 400, "invalid_value", "example", "The file has %lld examples.",
                      (long long)f->n_example);
    else if (rc == 1)
        rc = check_length(&l, e);
    if (!rc)
        buf_add(out, l.line.data, l.line.len);
    lines_release(&l);
    return rc;
}
