/* SPDX-License-Identifier: Apache-2.0
 *
 * Names in the file are PEFT's: base_model.model., the module's path, lora_A or lora_B.
 */
#include "engine/train/adapter_dir.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/load/st_writer.h"
#include "engine/train/state.h"

enum { NAME_BYTES = 512, CONFIG_BYTES_MAX = 1 << 16 };

static const char before[] = "base_model.model.";

static const char *prefix_of(const struct train_subject *s)
{
    return spec_prefix_of_class(&s->model->cfg);
}

static int write_tensor(struct st_writer *w, struct train_state *s, const struct train_tensor *x,
                        struct err *e)
{
    int64_t dim[2];
    train_state_shape(x, dim);
    float *host = try_alloc((size_t)(dim[0] * dim[1]), sizeof *host, "an adapter's tensor", e);
    size_t i = (size_t)(x - s->on->list.at);
    int rc = !host || train_state_get(s, i, TRAIN_VALUE, 0, dim[0], host, e) ||
                     st_writer_write(w, host, (size_t)(dim[0] * dim[1]) * sizeof *host, e)
                 ? -1
                 : 0;
    mem_free(host);
    return rc;
}

static int write_tensors(const char *path, const struct train_subject *s, struct train_state *state,
                         struct err *e)
{
    struct st_writer *w = st_writer_new();
    const struct st_tensor *next;
    size_t skip = strlen(before) + strlen(prefix_of(s));
    int rc = -1;
    if (st_writer_meta(w, "format", "pt", e))
        goto done;
    for (size_t i = 0; i < s->tensors.list.n; i++) {
        const struct train_tensor *x = &s->tensors.list.at[i];
        char name[NAME_BYTES];
        int64_t dim[2];
        snprintf(name, sizeof name, "%s%s%s", before, prefix_of(s), x->name);
        train_state_shape(x, dim);
        if (st_writer_add(w, name, ST_F32, 2, dim, e))
            goto done;
    }
    if (st_writer_open(w, path, e))
        goto done;
    while ((next = st_writer_next(w)))
        if (write_tensor(w, state, train_tensors_get(&s->tensors, next->name + skip), e))
            goto done;
    rc = st_writer_commit(w, e);
done:
    st_writer_free(w);
    return rc;
}

static void put_text(struct buf *b, const char *text)
{
    buf_char(b, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == '"' || *p == '\\')
            buf_printf(b, "\\u%04x", *p);
        else
            buf_char(b, (char)*p);
    }
    buf_char(b, '"');
}

/* The last parts of the adapted products' names, each once, sorted as PEFT's are not: a set. */
static void put_names(struct buf *b, const struct train_subject *s, const char *quote,
                      const char *between)
{
    const char *seen[TRAIN_TARGET_MAX];
    size_t len[TRAIN_TARGET_MAX], n = 0;
    for (int32_t i = 0; i < s->model->n_param; i++) {
        const struct param *p = &s->model->param[i];
        size_t end = strlen(p->name) - strlen(".weight"), at = end, k = 0;
        if (p->lora < 0 || s->half_a[p->lora] < 0)
            continue;
        while (at > 0 && p->name[at - 1] != '.')
            at--;
        while (k < n && (len[k] != end - at || memcmp(seen[k], p->name + at, end - at)))
            k++;
        if (k < n || n == TRAIN_TARGET_MAX)
            continue;
        seen[n] = p->name + at;
        len[n++] = end - at;
        buf_printf(b, "%s%s%.*s%s", n > 1 ? between : "", quote, (int)(end - at), p->name + at,
                   quote);
    }
}

/* Whether a product is adapted that is in no layer. */
static bool has_outer(const struct train_subject *s)
{
    for (int32_t i = 0; i < s->model->n_param; i++) {
        const struct param *p = &s->model->param[i];
        if (p->lora >= 0 && s->half_a[p->lora] >= 0 && strncmp(p->name, "layers.", 7) != 0)
            return true;
    }
    return false;
}

/* Beside a text model others may have products of the same names: then an expression. */
static void put_targets(struct buf *b, const struct train_subject *s)
{
    bool is_wrapped = s->model->cfg.is_wrapped;
    const char *inner = has_outer(s) ? "(.*\\\\.)?" : ".*\\\\.";
    if (is_wrapped)
        buf_printf(b, "\".*language_model\\\\.%s(", inner);
    else
        buf_str(b, "[");
    put_names(b, s, is_wrapped ? "" : "\"", is_wrapped ? "|" : ", ");
    buf_str(b, is_wrapped ? ")\"" : "]");
}

/* Of a classifier PEFT's own task would make the head a part of the adapter. */
static const char *task_of(const struct config *c)
{
    return c->classifier ? "null" : c->is_encoder ? "\"FEATURE_EXTRACTION\"" : "\"CAUSAL_LM\"";
}

static int write_config(const char *path, const struct train_subject *s, const char *base,
                        struct err *e)
{
    const struct train_lora *l = &s->lora;
    bool is_transposed = spec_is_transposed(spec_of(s->model->cfg.family));
    struct buf b;
    int rc;
    buf_init(&b, CONFIG_BYTES_MAX);
    buf_printf(&b,
               "{\n  \"peft_type\": \"LORA\",\n  \"task_type\": %s,\n"
               "  \"base_model_name_or_path\": ",
               task_of(&s->model->cfg));
    if (base)
        put_text(&b, base);
    else
        buf_str(&b, "null");
    buf_printf(&b, ",\n  \"r\": %" PRId64 ",\n  \"lora_alpha\": %.17g,\n", l->rank, l->alpha);
    buf_printf(&b, "  \"lora_dropout\": %.17g,\n  \"use_rslora\": %s,\n", l->dropout,
               l->is_rs ? "true" : "false");
    buf_printf(&b, "  \"fan_in_fan_out\": %s,\n", is_transposed ? "true" : "false");
    buf_str(&b, "  \"bias\": \"none\",\n  \"use_dora\": false,\n  \"modules_to_save\": null,\n"
                "  \"rank_pattern\": {},\n  \"alpha_pattern\": {},\n  \"inference_mode\": true,\n"
                "  \"target_modules\": ");
    put_targets(&b, s);
    buf_str(&b, "\n}\n");
    rc = buf_check(&b, "adapter_config.json", e) ? -1 : aside_put(path, b.data, b.len, e);
    buf_release(&b);
    return rc;
}

static int write_dir(const char *path, const struct train_subject *s, struct train_state *state,
                     const char *base, struct err *e)
{
    char *dir = fs_temp_dir(path, e), *tensors = NULL, *config = NULL, *id = NULL;
    int rc = -1;
    if (!dir)
        return err_wrap(e, "adapter");
    size_t n = strlen(dir) + sizeof "/adapter_model.safetensors";
    tensors = xmalloc(n);
    config = xmalloc(n);
    id = xmalloc(n);
    snprintf(tensors, n, "%s/adapter_model.safetensors", dir);
    snprintf(config, n, "%s/adapter_config.json", dir);
    snprintf(id, n, "%s/" BASE_ID_NAME, dir);
    rc = write_tensors(tensors, s, state, e) || write_config(config, s, base, e) ||
                 (*s->model->base.files && base_id_put(&s->model->base, base, id, e)) ||
                 made_list(dir, e) || fs_sync_dir(dir, e) || fs_rename(dir, path, e)
             ? err_wrap(e, "adapter")
             : 0;
    if (rc)
        fs_remove_tree(dir, NULL);
    free(tensors);
    free(config);
    free(id);
    free(dir);
    return rc;
}

int adapter_dir_write(const char *path, struct train_subject *s, const char *base, struct err *e)
{
    struct train_state state;
    train_state_begin(&state, &s->tensors, s->stream);
    int rc = train_is_lead(&s->tensors.ranks) ? write_dir(path, s, &state, base, e) : 0;
    return train_state_end(&state, rc, e);
}
