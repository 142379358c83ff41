/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer is kept as the text that it was; what stands beside it goes in before its last brace.
 */
#include "api/kept_chat.h"

#include <string.h>

#include "api/metadata.h"
#include "engine/base/buf.h"

struct mark {
    const char *metadata;
    bool is_there;
};

static int read_mark(struct api_reader *r, const char *name, const json_t *v, void *out)
{
    struct mark *m = out;
    if (strcmp(name, "metadata") != 0)
        return params_ignore(r, name);
    m->is_there = true;
    return json_is_null(v) ? 0 : metadata_read(r, name, v, &m->metadata);
}

int api_chat_mark_parse(const char *body, size_t n, struct arena *a, const char **metadata,
                        const char **ignored, struct api_error *e)
{
    struct mark m = {.metadata = NULL};
    if (params_each(body, n, a, read_mark, &m, ignored, e))
        return -1;
    *metadata = m.metadata;
    return m.is_there ? 0
                      : api_fail(e, 400, "missing_required_parameter", "metadata",
                                 "'metadata' is needed.");
}

void api_chat_kept_write(struct jout *j, const char *body, const char *metadata)
{
    struct buf all;
    metadata = metadata ? metadata : "{}";
    buf_init(&all, strlen(body) + strlen(metadata) + 32);
    buf_add(&all, body, strlen(body) - 1);
    buf_str(&all, ",\"metadata\":");
    buf_str(&all, metadata);
    buf_char(&all, '}');
    j->out->failed |= all.failed;
    jout_json(j, all.len ? all.data : "", all.len);
    buf_release(&all);
}
