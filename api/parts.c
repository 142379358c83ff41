/* SPDX-License-Identifier: Apache-2.0
 *
 * Uploads in parts as clients ask for them and see them.
 */
#include "api/parts.h"

#include <string.h>

#include "api/file_ask.h"
#include "api/json.h"
#include "api/multipart.h"
#include "api/params.h"

enum { MIME_BYTES_MAX = 256 };

static int read_text(struct api_reader *r, const char *name, const json_t *v, size_t most,
                     const char **out)
{
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    size_t n = json_string_length(v);
    if (n < 1 || n > most || strlen(json_string_value(v)) != n)
        return param_bad(r, name, "must have from 1 to %zu bytes, none of them NUL", most);
    *out = json_string_value(v);
    return 0;
}

/* ---- asked for ------------------------------------------------------------------------------- */

static int read_field(struct api_reader *r, const char *key, const json_t *v, void *to)
{
    struct parts *out = to;
    if (strcmp(key, "expires_after") == 0)
        return json_is_null(v) ? 0 : file_ask_keep(r, key, v, &out->keep_s);
    if (strcmp(key, "filename") == 0)
        return read_text(r, key, v, MULTIPART_NAME_MAX, &out->name);
    if (strcmp(key, "mime_type") == 0)
        return read_text(r, key, v, MIME_BYTES_MAX, &out->mime);
    if (strcmp(key, "purpose") == 0)
        return (out->purpose = file_ask_purpose(json_string_value(v)))
                   ? 0
                   : param_bad(r, key, "must be " FILE_ASK_PURPOSES);
    if (strcmp(key, "bytes") == 0)
        return param_int(r, key, v, 1, (int64_t)1 << 53, &out->bytes);
    return param_bad(r, key, "is no field of an upload");
}

static int missing(const char *name, struct api_error *e)
{
    return api_fail(e, 400, "missing_required_parameter", name, "'%s' is needed.", name);
}

int parts_ask_parse(const char *body, size_t n, struct arena *a, struct parts *out,
                    struct api_error *e)
{
    const char *ignored;
    *out = (struct parts){.id = NULL};
    if (params_each(body, n, a, read_field, out, &ignored, e))
        return -1;
    return !out->name      ? missing("filename", e)
           : !out->purpose ? missing("purpose", e)
           : !out->bytes   ? missing("bytes", e)
           : !out->mime    ? missing("mime_type", e)
                           : 0;
}

/* ---- completed ------------------------------------------------------------------------------- */

static int read_ids(struct api_reader *r, const char *name, const json_t *v,
                    struct parts_order *out)
{
    if (!json_is_array(v))
        return param_type(r, name, "a list of ids of parts", v);
    if (json_array_size(v) < 1 || json_array_size(v) > PARTS_MAX)
        return param_bad(r, name, "must have from 1 to %d ids", PARTS_MAX);
    out->id = param_alloc(r, name, json_array_size(v), sizeof *out->id);
    if (!out->id)
        return -1;
    for (out->n = 0; out->n < json_array_size(v); out->n++)
        if (read_text(r, name, json_array_get(v, out->n), MULTIPART_NAME_MAX, &out->id[out->n]))
            return -1;
    return 0;
}

static int read_md5(struct api_reader *r, const char *name, const json_t *v,
                    struct parts_order *out)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    const char *s = json_string_value(v);
    if (!s || json_string_length(v) != MD5_TEXT_BYTES - 1 ||
        strspn(s, digits) != MD5_TEXT_BYTES - 1)
        return param_bad(r, name, "must be %d hexadecimal digits", MD5_TEXT_BYTES - 1);
    for (size_t i = 0; i < MD5_TEXT_BYTES - 1; i++)
        out->md5[i] = (char)(s[i] >= 'A' && s[i] <= 'F' ? s[i] + 'a' - 'A' : s[i]);
    return 0;
}

static int read_order(struct api_reader *r, const char *key, const json_t *v, void *to)
{
    if (strcmp(key, "part_ids") == 0)
        return read_ids(r, key, v, to);
    if (strcmp(key, "md5") == 0)
        return json_is_null(v) ? 0 : read_md5(r, key, v, to);
    return param_bad(r, key, "is no field of a completion");
}

int parts_order_parse(const char *body, size_t n, struct arena *a, struct parts_order *out,
                      struct api_error *e)
{
    const char *ignored;
    *out = (struct parts_order){.id = NULL};
    if (params_each(body, n, a, read_order, out, &ignored, e))
        return -1;
    return out->id ? 0 : missing("part_ids", e);
}

/* ---- shown ----------------------------------------------------------------------------------- */

void parts_write(struct jout *j, const struct parts *p, const struct file_row *file)
{
    static const char *const states[] = {
#define STATE(name, text) text,
        PARTS_STATES(STATE)
#undef STATE
    };
    jout_open(j, '{');
    jout_put_str(j, "id", p->id);
    jout_put_str(j, "object", "upload");
    jout_put_int(j, "bytes", p->bytes);
    jout_put_int(j, "created_at", p->created);
    jout_put_int(j, "expires_at", p->expires);
    jout_put_str(j, "filename", p->name);
    jout_put_str(j, "purpose", p->purpose);
    jout_put_str(j, "status", states[p->state]);
    if (file) {
        jout_key(j, "file");
        file_row_write(j, file);
    } else {
        jout_put_null(j, "file");
    }
    jout_close(j, '}');
}

void part_write(struct jout *j, const struct part *p)
{
    jout_open(j, '{');
    jout_put_str(j, "id", p->id);
    jout_put_str(j, "object", "upload.part");
    jout_put_int(j, "created_at", p->created);
    jout_put_str(j, "upload_id", p->upload);
    jout_close(j, '}');
}
