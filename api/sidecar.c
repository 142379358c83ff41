/* SPDX-License-Identifier: Apache-2.0
 *
 * One object each, whose fields are all there, or the whole is refused.
 */
#include "api/sidecar.h"

#include <string.h>

#include "api/json.h"

void sidecar_write_file(struct buf *out, const struct file_row *f)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "kind", "file");
    jout_put_str(&j, "id", f->id);
    jout_put_str(&j, "owner", f->owner);
    jout_put_str(&j, "purpose", f->purpose);
    jout_put_str(&j, "name", f->name);
    jout_put_str(&j, "sha256", f->sha256);
    jout_put_int(&j, "bytes", f->bytes);
    jout_put_int(&j, "created", f->created);
    jout_put_int(&j, "expires", f->expires);
    jout_close(&j, '}');
    buf_char(out, '\n');
}

void sidecar_write_tuned(struct buf *out, const struct job_tuned *t, bool is_shared)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "kind", "model");
    jout_put_str(&j, "id", t->id);
    jout_put_str(&j, "owner", t->owner);
    jout_put_str(&j, "name", t->name);
    jout_put_str(&j, "job", t->job);
    jout_put_str(&j, "base", t->base);
    jout_put_str(&j, "dir", t->dir);
    jout_put_int(&j, "step", t->step);
    jout_put_int(&j, "created", t->created);
    jout_put_bool(&j, "is_checkpoint", t->is_checkpoint);
    jout_put_bool(&j, "is_full", t->is_full);
    jout_put_bool(&j, "shared", is_shared);
    jout_close(&j, '}');
    buf_char(out, '\n');
}

struct text_field {
    const char *key, **to;
};

struct int_field {
    const char *key;
    int64_t *to;
};

static int corrupt(struct err *e, const char *key)
{
    return err_set(e, ERR_CORRUPT, "the note beside it has no good '%s'", key);
}

static json_t *read_kind(const char *text, size_t n, struct arena *a, const char *kind,
                         struct err *e)
{
    struct api_error why;
    json_t *o = api_json_object(a, text, n, &why);
    const char *is = o ? json_string_value(json_object_get(o, "kind")) : NULL;
    if (is && strcmp(is, kind) == 0)
        return o;
    corrupt(e, "kind");
    return NULL;
}

static int read_all(const json_t *o, const struct text_field *t, size_t n_text,
                    const struct int_field *i, size_t n_int, struct arena *a, struct err *e)
{
    for (size_t k = 0; k < n_text; k++) {
        const char *value = json_string_value(json_object_get(o, t[k].key));
        if (!value)
            return corrupt(e, t[k].key);
        *t[k].to = arena_strdup(a, value);
    }
    for (size_t k = 0; k < n_int; k++) {
        const json_t *value = json_object_get(o, i[k].key);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return corrupt(e, i[k].key);
        *i[k].to = json_integer_value(value);
    }
    return 0;
}

int sidecar_read_file(const char *text, size_t n, struct arena *a, struct file_row *out,
                      struct err *e)
{
    *out = (struct file_row){.id = NULL};
    const struct text_field t[] = {{"id", &out->id},
                                   {"owner", &out->owner},
                                   {"purpose", &out->purpose},
                                   {"name", &out->name},
                                   {"sha256", &out->sha256}};
    const struct int_field i[] = {
        {"bytes", &out->bytes}, {"created", &out->created}, {"expires", &out->expires}};
    const json_t *o = read_kind(text, n, a, "file", e);
    return o ? read_all(o, t, sizeof t / sizeof *t, i, sizeof i / sizeof *i, a, e) : -1;
}

int sidecar_read_tuned(const char *text, size_t n, struct arena *a, struct job_tuned *out,
                       bool *is_shared, struct err *e)
{
    *out = (struct job_tuned){.id = NULL};
    const struct text_field t[] = {{"id", &out->id},   {"owner", &out->owner}, {"name", &out->name},
                                   {"job", &out->job}, {"base", &out->base},   {"dir", &out->dir}};
    const struct int_field i[] = {{"step", &out->step}, {"created", &out->created}};
    const json_t *o = read_kind(text, n, a, "model", e);
    if (!o || read_all(o, t, sizeof t / sizeof *t, i, sizeof i / sizeof *i, a, e))
        return -1;
    out->is_checkpoint = json_is_true(json_object_get(o, "is_checkpoint"));
    out->is_full = json_is_true(json_object_get(o, "is_full"));
    *is_shared = json_is_true(json_object_get(o, "shared"));
    return 0;
}
