/* SPDX-License-Identifier: Apache-2.0
 *
 * One line at a time is in memory, with its JSON tree.
 */
#include "server/train_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/train_row.h"
#include "engine/token/template.h"

enum { ROW_BYTES_MAX = 512 << 20 };

/* "Example 7: what"; the param of a fault in a file is the file. */
static int at_example(const struct train_file *f, struct api_error *e)
{
    char what[sizeof e->message];
    snprintf(what, sizeof what, "%s", e->message);
    snprintf(e->message, sizeof e->message, "Invalid file format. Example %lld: %.440s",
             (long long)f->n_example, what);
    snprintf(e->param, sizeof e->param, "training_file");
    e->code = "invalid_training_file";
    return -1;
}

static int refuse_preference(const struct train_file *f, struct api_error *e)
{
    return api_fail(e, 400, "invalid_file_format", "training_file",
                    "Example %lld is of the fine-tune-preference format, but the method is "
                    "'supervised': rows of preferences are for the method 'dpo'.",
                    (long long)f->n_example);
}

static int add_line(struct arena *a, const char *line, size_t n, struct dataset *d,
                    struct train_file *f, struct api_error *e)
{
    const struct template *t = d->opt.template;
    struct api_train_row row;
    struct err why = ERR_INIT;
    int rc;
    if (api_train_row(a, line, n, t && template_uses(t, "developer"), &row, e))
        return at_example(f, e);
    if (row.kind == API_TRAIN_PREFERENCE)
        return refuse_preference(f, e);
    if (row.kind == API_TRAIN_CHAT) {
        f->n_chat++;
        rc = dataset_add_chat(d, &row.messages, row.has_tools ? &row.tools : NULL, row.weight,
                              row.n_weight, &why);
    } else {
        f->n_text++;
        rc = dataset_add_text(d, row.prompt, row.n_prompt, row.completion, row.n_completion, &why);
    }
    if (!rc)
        return 0;
    api_fail_err(e, &why, "training_file");
    return at_example(f, e);
}

static bool is_blank(const char *line, size_t n)
{
    while (n > 0 && strchr(" \t\r\n", line[n - 1]))
        n--;
    return n == 0;
}

int train_file_read(const char *path, struct dataset *d, struct train_file *f, struct api_error *e)
{
    struct arena arena;
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    FILE *in = fopen(path, "rb");
    *f = (struct train_file){0};
    if (!in) {
        struct err why = ERR_INIT;
        err_sys(&why, "the training file cannot be read");
        return api_fail_err(e, &why, "training_file");
    }
    arena_init(&arena, ROW_BYTES_MAX);
    while (!rc && (n = getline(&line, &cap, in)) >= 0) {
        if (is_blank(line, (size_t)n))
            continue;
        f->n_example++;
        if (n > TRAIN_FILE_LINE_MAX) {
            api_fail(e, 400, NULL, NULL, "a line of %zd bytes: %d can be", n, TRAIN_FILE_LINE_MAX);
            rc = at_example(f, e);
        } else {
            rc = add_line(&arena, line, (size_t)n, d, f, e);
        }
        arena_reset(&arena);
    }
    if (!rc && ferror(in))
        rc = api_fail(e, 500, NULL, "training_file", "The training file cannot be read.");
    arena_release(&arena);
    free(line);
    fclose(in);
    return rc;
}
