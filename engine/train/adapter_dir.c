/* SPDX-License-Identifier: Apache-2.0
 *
 * Names in the file are PEFT's: base_model.model., the module's path, lora_A, lora_B or
 * lora_magnitude_vector. Of a layer's experts as PEFT's target_parameters have them
 * (engine/model/adapter_files.h). A matrix that was trained whole is under its module's own name,
 * as PEFT's modules_to_save are, in the type that products read of it: what is served is what was
 * trained.
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
#include "engine/model/adapter_files.h"
#include "engine/model/export.h"
#include "engine/model/saved.h"
#include "engine/train/state.h"

enum { NAME_BYTES = 512, CONFIG_BYTES_MAX = 1 << 16 };

static const char before[] = "base_model.model.";

static const char *prefix_of(const struct train_subject *s)
{
    return spec_prefix_of_class(&s->model->cfg);
}

static bool is_adapted(const struct train_subject *s, const struct param *p)
{
    return p->lora >= 0 && s->half_a[p->lora] >= 0;
}

/* Whether the other of a layer's two products of experts is adapted, too. */
static bool has_both(const struct train_subject *s, const struct param *p)
{
    size_t n = (size_t)(strrchr(p->lora_name, '.') - p->lora_name);
    for (int32_t i = 0; i < s->model->n_param; i++) {
        const struct param *q = &s->model->param[i];
        if (q != p && is_adapted(s, q) && q->n_half && strncmp(p->lora_name, q->lora_name, n) == 0)
            return true;
    }
    return false;
}

static void file_name(const struct train_subject *s, const struct train_tensor *x,
                      char name[NAME_BYTES])
{
    const struct param *p = x->of;
    const char *module = p->lora_name, *inner = "";
    if (x->side == TRAIN_SELF) {
        snprintf(name, NAME_BYTES, "%s%s", before, x->name);
        return;
    }
    int n = (int)strlen(module);
    if (p->n_half) {
        n = (int)(strrchr(module, '.') - module);
        inner = p->lora_n > p->n && has_both(s, p) ? ".base_layer" : "";
    }
    snprintf(name, NAME_BYTES, "%s%s%.*s%s.%s", before, prefix_of(s), n, module, inner,
             train_subject_word(x->side));
}

/* Returns how many dimensions it has. */
static int file_shape(const struct train_tensor *x, int64_t dim[2])
{
    train_state_shape(x, dim);
    if (x->side == TRAIN_HALF_B && x->of->n_half) {
        dim[0] = x->of->lora_n;
        dim[1] = x->rank * x->of->n_half;
    }
    return x->side == TRAIN_MAGNITUDE ? 1 : 2;
}

static enum k_type file_type(const struct train_tensor *x)
{
    return x->side == TRAIN_SELF ? x->of->w.type : K_F32;
}

static enum st_dtype file_dtype(const struct train_tensor *x)
{
    return file_type(x) == K_BF16 ? ST_BF16 : ST_F32;
}

/* B of a layer's experts from one behind the other to all by turns. */
static float *stacked(const struct train_subject *s, const struct train_tensor *x,
                      const float *host, struct err *e)
{
    const struct param *p = x->of;
    int64_t rows = param_half_rows(p, true, x->rank);
    float *to = try_alloc((size_t)(rows * x->rank), sizeof *to, "an adapter's tensor", e);
    for (int64_t i = 0; to && i < rows; i++)
        for (int64_t r = 0; r < x->rank; r++)
            to[adapter_stack_at(s->model, p, x->rank, i / p->lora_n, i % p->lora_n, r)] =
                host[i * x->rank + r];
    return to;
}

static int write_tensor(struct st_writer *w, const struct train_subject *on, struct train_state *s,
                        const struct train_tensor *x, struct err *e)
{
    int64_t dim[2];
    train_state_shape(x, dim);
    size_t n = (size_t)(dim[0] * dim[1]), i = (size_t)(x - s->on->list.at);
    bool turns = x->of->n_half && x->side == TRAIN_HALF_B;
    enum k_type type = file_type(x);
    size_t bytes = n * (type == K_BF16 ? sizeof(k_bf16) : sizeof(float));
    float *host = try_alloc(n, sizeof *host, "an adapter's tensor", e), *other = NULL;
    int rc = host ? train_state_get(s, i, TRAIN_VALUE, 0, dim[0], host, e) : -1;
    if (!rc && turns)
        other = stacked(on, x, host, e);
    if (!rc)
        rc = (turns && !other) ||
                     st_writer_write(w, turns ? other : model_export_narrow(host, (int64_t)n, type),
                                     bytes, e)
                 ? -1
                 : 0;
    mem_free(other);
    mem_free(host);
    return rc;
}

static const struct train_tensor *tensor_of(const struct train_subject *s, const char *file)
{
    char name[NAME_BYTES];
    for (size_t i = 0; i < s->tensors.list.n; i++) {
        file_name(s, &s->tensors.list.at[i], name);
        if (strcmp(name, file) == 0)
            return &s->tensors.list.at[i];
    }
    BUG("no tensor %s", file);
}

static int write_tensors(const char *path, const struct train_subject *s, struct train_state *state,
                         struct err *e)
{
    struct st_writer *w = st_writer_new();
    const struct st_tensor *next;
    int rc = -1;
    if (st_writer_meta(w, "format", "pt", e))
        goto done;
    for (size_t i = 0; i < s->tensors.list.n; i++) {
        const struct train_tensor *x = &s->tensors.list.at[i];
        char name[NAME_BYTES];
        int64_t dim[2];
        file_name(s, x, name);
        int n_dim = file_shape(x, dim);
        if (st_writer_add(w, name, file_dtype(x), n_dim, dim, e))
            goto done;
    }
    if (st_writer_open(w, path, e))
        goto done;
    while ((next = st_writer_next(w)))
        if (write_tensor(w, s, state, tensor_of(s, next->name), e))
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

/* What PEFT is told of a product; of a parameter of experts all that is behind the layer's number.
 */
static const char *target_of(const struct param *p)
{
    const char *at = strchr(p->lora_name, '.');
    return p->n_half ? strchr(at + 1, '.') + 1
                     : train_target_name(p->lora_name, strlen(p->lora_name));
}

/* The targets of modules, or of parameters, each once. */
static void put_names(struct buf *b, const struct train_subject *s, bool is_param,
                      const char *quote, const char *between)
{
    const char *seen[TRAIN_TARGET_MAX];
    size_t n = 0, k;
    for (int32_t i = 0; i < s->model->n_param; i++) {
        const struct param *p = &s->model->param[i];
        if (!is_adapted(s, p) || (p->n_half > 0) != is_param)
            continue;
        for (k = 0; k < n && strcmp(seen[k], target_of(p)) != 0;)
            k++;
        if (k < n)
            continue;
        ASSERT(n < TRAIN_TARGET_MAX);
        seen[n++] = target_of(p);
        buf_printf(b, "%s%s%s%s", n > 1 ? between : "", quote, seen[n - 1], quote);
    }
}

/* Whether a product is adapted that is in no layer. */
static bool has_outer(const struct train_subject *s)
{
    for (int32_t i = 0; i < s->model->n_param; i++) {
        const struct param *p = &s->model->param[i];
        if (is_adapted(s, p) && strncmp(p->name, "layers.", 7) != 0)
            return true;
    }
    return false;
}

static bool has_any(const struct train_subject *s, bool is_param)
{
    for (int32_t i = 0; i < s->model->n_param; i++)
        if (is_adapted(s, &s->model->param[i]) && (s->model->param[i].n_half > 0) == is_param)
            return true;
    return false;
}

/* Beside a text model others may have products of the same names: then an expression. */
static void put_targets(struct buf *b, const struct train_subject *s)
{
    bool is_wrapped = s->model->cfg.is_wrapped && has_any(s, false);
    const char *inner = has_outer(s) ? "(.*\\\\.)?" : ".*\\\\.";
    if (is_wrapped)
        buf_printf(b, "\".*language_model\\\\.%s(", inner);
    else
        buf_str(b, "[");
    put_names(b, s, false, is_wrapped ? "" : "\"", is_wrapped ? "|" : ", ");
    buf_str(b, is_wrapped ? ")\"" : "]");
    if (!has_any(s, true))
        return;
    buf_str(b, ",\n  \"target_parameters\": [");
    put_names(b, s, true, "\"", ", ");
    buf_str(b, "]");
}

static void put_saved(struct buf *b, const struct train_subject *s)
{
    const char *between = "[";
    for (int i = SAVED_COUNT - 1; i >= 0; i--) {
        if (!s->saved.is[i])
            continue;
        buf_printf(b, "%s\"%s\"", between, saved_word(s->model, (enum saved)i));
        between = ", ";
    }
    buf_str(b, s->lora.saves ? "]" : "null");
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
    buf_printf(&b, "  \"bias\": \"none\",\n  \"use_dora\": %s,\n  \"modules_to_save\": ",
               l->is_dora ? "true" : "false");
    put_saved(&b, s);
    buf_str(&b,
            ",\n  \"rank_pattern\": {},\n  \"alpha_pattern\": {},\n  \"inference_mode\": true,\n"
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
