/* SPDX-License-Identifier: Apache-2.0
 *
 * See plan.h.
 */
#include "engine/quant/plan.h"

#include "engine/base/err.h"
#include "engine/load/gguf_weights.h"
#include "engine/load/json.h"
#include "engine/model/stored.h"
#include "kernels/coded.h"

static int refuse(const struct model_dir *from, const char *what, struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: %s: it is quantised already: take the model that it was made of",
                   from->path, what);
}

static int check_model(const struct model_dir *from, struct err *e)
{
    if (weights_are_packed(from->weights))
        return refuse(from, "its matrices are packed in few bits", e);
    const struct weight *w = weights_with_bits(from->weights);
    if (w)
        return refuse(from, w->t->name, e);
    if (from->config.is_encoder)
        return err_set(e, ERR_UNSUPPORTED, "%s: an encoder; models that write text are quantised",
                       from->path);
    if (spec_is_transposed(spec_of(from->config.family)))
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: its files keep matrices by inputs, which no layout of packed codes does",
            from->path);
    struct json_doc *doc = model_dir_config_doc(from, e);
    if (!doc)
        return -1;
    struct json root = json_root(doc), q = json_member(&root, "quantization_config");
    int rc = q.node ? refuse(from, "config.json: quantization_config", e) : 0;
    json_free(doc);
    return rc;
}

/* Whether the files have numbers for it, not codes. */
static int check_numbers(const struct model_dir *from, const struct weight *w, struct err *e)
{
    if (w->stack)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %s is one of the experts that share a tensor, which are not quantised",
                       from->path, w->t->name);
    bool is_coded = w->packed || (w->gguf && w->gguf->from->type->unpack);
    return is_coded ? refuse(from, w->t->name, e) : 0;
}

static bool is_of_layers(const struct spec_row *r)
{
    return r->slot >= SLOT_GLOBAL_COUNT && r->slot != SLOT_ROUTER &&
           r->slot != SLOT_SHARED_WEIGHT && !spec_row_is_vector(r);
}

static bool is_shared(enum slot s)
{
    return s == SLOT_K || s == SLOT_V || s == SLOT_UP || s == SLOT_SHARED_UP || s == SLOT_DELTA_Z ||
           s == SLOT_DELTA_B || s == SLOT_DELTA_A || s == SLOT_DELTA_BA;
}

int64_t quant_unit(const struct quant_plan *p)
{
    return p->group ? p->group : K_FP8_GROUP;
}

static int add(struct quant_plan *p, const struct model_dir *from, const struct spec_row *r,
               int64_t layer, const struct param *param, struct err *e)
{
    static const char what[] = "the list of matrices";
    const int64_t dim[2] = {param->n, param->k};
    struct quant_entry t = {.p = param, .layer = layer};
    if (stored_want(from->weights, &from->config, param->name, 2, dim, &t.from, e) ||
        check_numbers(from, t.from, e))
        return -1;
    t.is_shared = is_shared(r->slot);
    if (param->k % quant_unit(p))
        return vec_try_push(&p->kept, what, e, t.from->t->name);
    return vec_try_push(&p->entry, what, e, t);
}

static int find_all(struct quant_plan *p, const struct model_dir *from, struct err *e)
{
    struct spec_walk w = spec_walk_begin(&from->config);
    const struct param *param = p->shape->param;
    for (const struct spec_row *r; (r = spec_walk_next(&w)); param++)
        if (is_of_layers(r) && add(p, from, r, w.layer, param, e))
            return -1;
    if (!p->entry.n)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: no matrix of its layers has inputs in whole groups of %lld%s",
                       from->path, (long long)quant_unit(p),
                       p->group > CODED_INPUTS ? ": give a smaller --group" : "");
    for (size_t i = 0; i < p->entry.n; i++)
        map_put_str(&p->by_name, p->entry.at[i].from->t->name, &p->entry.at[i]);
    return 0;
}

int quant_plan_init(struct quant_plan *p, const struct model_dir *from,
                    const struct quant_target *target, int64_t group, struct err *e)
{
    struct model_options mo = {.type = -1, .kv_type = -1, .files = from->weights};
    *p = (struct quant_plan){.target = target, .group = target->is_float ? 0 : group};
    map_init(&p->by_name);
    if (check_model(from, e))
        return -1;
    p->shape = model_new(&from->config, &mo, NULL, e);
    return p->shape ? find_all(p, from, e) : -1;
}

void quant_plan_release(struct quant_plan *p)
{
    model_free(p->shape);
    vec_release(&p->entry);
    vec_release(&p->kept);
    map_release(&p->by_name);
}

int64_t quant_group(const struct quant_plan *p, const struct quant_entry *t)
{
    return p->group ? p->group : t->p->k;
}

enum st_dtype quant_scale_dtype(const struct quant_plan *p, const struct quant_entry *t)
{
    if (p->target->is_float)
        return ST_F32;
    return weight_k_type(t->from) == K_BF16 ? ST_BF16 : ST_F16;
}
