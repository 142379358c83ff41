/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the file stays as it is, digit for digit; the member is put before its last brace.
 */
#include "engine/quant/quant_config.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/fs.h"
#include "engine/load/gguf_config.h"
#include "engine/load/json.h"
#include "engine/load/path.h"

enum { TEXT_BYTES_MAX = 16 << 20 };

static const char NAME[] = "config.json";

static int read_text(const struct model_dir *from, struct buf *out, struct err *e)
{
    if (from->config_text)
        return buf_str(out, from->config_text);
    char *path = path_join(from->path, NAME);
    int rc = fs_read(path, out, e);
    free(path);
    return rc;
}

/* Modules with a matrix that stays as it is, embeddings aside; the head whether it is there or not.
 */
static void put_ignored(const struct quant_plan *p, const struct weights *w, struct buf *out)
{
    static const char end[] = ".weight", head[] = "lm_head";
    buf_str(out, "\"ignore\":[\"lm_head\"");
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct st_tensor *t = weights_at(w, i)->t;
        size_t n = strlen(t->name), m = sizeof end - 1;
        if (t->rank != 2 || n <= m || strcmp(t->name + n - m, end) != 0 ||
            strstr(t->name, "embed") || map_get_str(&p->by_name, t->name) ||
            strncmp(t->name, head, sizeof head - 1) == 0)
            continue;
        buf_char(out, ',');
        gguf_json_str(out, t->name, n - m);
    }
    buf_char(out, ']');
}

static void put_scheme(const struct quant_plan *p, struct buf *out)
{
    if (p->target->is_float)
        buf_str(out, "\"type\":\"float\",\"symmetric\":true,\"strategy\":\"channel\","
                     "\"group_size\":null,");
    else
        buf_printf(out,
                   "\"type\":\"int\",\"symmetric\":true,\"strategy\":\"group\","
                   "\"group_size\":%lld,",
                   (long long)p->group);
}

static void put_member(const struct quant_plan *p, const struct weights *w, struct buf *out)
{
    buf_printf(out,
               ",\n  \"quantization_config\":{\"quant_method\":\"compressed-tensors\","
               "\"format\":\"%s\",\"quantization_status\":\"compressed\","
               "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{"
               "\"num_bits\":%d,",
               p->target->is_float ? "float-quantized" : "pack-quantized", p->target->bits);
    put_scheme(p, out);
    buf_str(out, "\"dynamic\":false,\"actorder\":null,\"block_structure\":null,"
                 "\"observer\":\"minmax\",\"observer_kwargs\":{}},"
                 "\"input_activations\":null,\"output_activations\":null}},");
    put_ignored(p, w, out);
    buf_str(out, ",\"kv_cache_scheme\":null,\"global_compression_ratio\":null}\n}\n");
}

/* What was written is read as any other is. */
static int check(const struct buf *text, struct err *e)
{
    struct json_doc *doc = json_parse(text->data, text->len, NAME, &json_rules_config, e);
    json_free(doc);
    return doc ? 0 : -1;
}

int quant_config_write(const struct quant_plan *p, const struct model_dir *from, const char *dir,
                       struct err *e)
{
    struct buf text;
    char *path = path_join(dir, NAME);
    buf_init(&text, TEXT_BYTES_MAX);
    int rc = read_text(from, &text, e);
    while (!rc && text.len && text.data[text.len - 1] != '}')
        text.len--;
    if (!rc && text.len) {
        text.len--;
        while (text.len && strchr(" \t\r\n", text.data[text.len - 1]))
            text.len--;
        put_member(p, from->weights, &text);
        rc = buf_check(&text, NAME, e) || check(&text, e) || aside_put(path, text.data, text.len, e)
                 ? -1
                 : 0;
    }
    buf_release(&text);
    free(path);
    return rc;
}
