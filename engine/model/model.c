/* SPDX-License-Identifier: Apache-2.0
 *
 * From a family's rows and a config to the list of parameters and their memory.
 *
 * All parameters share one block. A matrix's numbers are followed by what groups of them share; of
 * matrices that stand together all numbers come first, so that neighbours can be read as one
 * weight.
 */
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/model/formats.h"
#include "engine/model/order.h"
#include "engine/model/part.h"
#include "engine/model/rope_table.h"
#include "kernels/conv.h"
#include "kernels/format.h"

enum { NAME_BYTES = 96, ALIGN_BYTES = 64 };

/* The row's name with the layer in place of its %d, and the expert in place of the second. */
static void put_name(char *out, const char *pattern, int64_t layer, int64_t expert)
{
    const int64_t number[] = {layer, expert};
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(pattern, "%d");
        if (!at)
            break;
        n += (size_t)snprintf(out + n, NAME_BYTES - n, "%.*s%lld", (int)(at - pattern), pattern,
                              (long long)number[i]);
        pattern = at + 2;
    }
    snprintf(out + n, NAME_BYTES - n, "%s", pattern);
}

/* What adapters see of a parameter: without its ".weight", or all of a layer's experts in one. */
static void fill_product(struct model *m, const struct spec_row *r, const struct spec_walk *at,
                         struct param *p)
{
    char *name = m->names + (size_t)(m->n_param + m->n_lora) * NAME_BYTES;
    put_name(name, r->stack ? r->stack : r->name, at->layer, at->expert);
    if (!r->stack)
        name[strlen(name) - strlen(".weight")] = 0;
    p->lora = m->n_lora++;
    p->lora_name = name;
    p->n_half = r->is_each ? m->cfg.n_expert : 0;
    p->lora_n = r->slot == SLOT_EXPERT_GATE ? 2 * p->n : p->n;
}

static bool is_product(const struct spec_row *r, const struct spec_walk *at)
{
    return r->takes_lora && at->expert <= 0;
}

static void fill_param(struct model *m, const struct spec_row *r, const struct spec_walk *at,
                       int32_t i)
{
    struct param *p = &m->param[i];
    char *name = m->names + (size_t)i * NAME_BYTES;
    put_name(name, r->name, at->layer, at->expert);
    *p = (struct param){.name = name,
                        .index = i,
                        .lora = -1,
                        .is_vector = spec_row_is_vector(r),
                        .is_fixed = r->is_fixed,
                        .n = spec_dim_of(&m->cfg, r->n, at->layer),
                        .k = spec_dim_of(&m->cfg, r->k, at->layer)};
    if (is_product(r, at))
        fill_product(m, r, at, p);
    if (r->n == DIM_OF_QKV) {
        p->section[0] = spec_dim_of(&m->cfg, DIM_OF_Q, at->layer);
        p->section[1] = p->section[2] = spec_dim_of(&m->cfg, DIM_OF_KV, at->layer);
    }
    if (r->n == DIM_OF_CONV_IN)
        p->section[0] = p->section[1] = p->section[2] = m->cfg.d_model;
    if (r->n == DIM_OF_TAPS)
        p->n_tap = m->cfg.n_tap;
    if (r->n == DIM_OF_GATE_UP)
        p->section[0] = p->section[1] = spec_dim_of(&m->cfg, DIM_OF_FF, at->layer);
    if (at->layer < 0)
        m->slot[r->slot] = p;
    else if (at->expert <= 0)
        m->layer[at->layer].slot[r->slot - SLOT_GLOBAL_COUNT] = p;
}

static void list_params(struct model *m)
{
    struct spec_walk w = spec_walk_begin(&m->cfg);
    int32_t n = 0, n_product = 0;
    for (const struct spec_row *r; (r = spec_walk_next(&w)); m->n_param++)
        n_product += is_product(r, &w);
    m->param = xcalloc((size_t)m->n_param + 1, sizeof *m->param);
    m->names = xcalloc((size_t)(m->n_param + n_product) + 1, NAME_BYTES);
    m->layer = xcalloc((size_t)m->cfg.n_layer + 1, sizeof *m->layer);
    for (int64_t l = 0; l < m->cfg.n_layer; l++)
        layer_init(&m->layer[l], &m->cfg, l);
    w = spec_walk_begin(&m->cfg);
    for (const struct spec_row *r; (r = spec_walk_next(&w)); n++)
        fill_param(m, r, &w, n);
}

static size_t aligned(size_t at)
{
    return (at + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Params [i, i + n) of `list` back to back from `at` on: vectors, or a stream of all matrices and
 * then the next. A list without memory has addresses that nobody reads: they say who is whose
 * neighbour. */
static size_t place_run(struct param *list, char *block, int32_t i, int32_t n, size_t at)
{
    at = aligned(at);
    for (int32_t k = i; k < i + n && list[k].is_vector; k++) {
        list[k].vec = (float *)(void *)(block + at);
        at += (size_t)list[k].n * sizeof(float);
    }
    for (int stream = 0; stream < FORMAT_STREAMS; stream++) {
        for (int32_t k = i; k < i + n && !list[k].is_vector; k++) {
            struct param *p = &list[k];
            if (stream == 0)
                p->w = (struct k_weight){.type = p->w.type, .n = p->n, .k = p->k};
            at = (size_t)((char *)k_weight_put_stream(&p->w, stream, block + at) - block);
        }
    }
    return at;
}

/* The rows of one group, which stand next to each other, are one run, and so are all experts of
 * one. */
static size_t place_all(const struct model *m, struct param *list, void *memory)
{
    char *block = memory ? memory : (char *)(uintptr_t)ALIGN_BYTES;
    struct spec_walk w = spec_walk_begin(&m->cfg);
    int64_t run_layer = -2;
    const struct spec_row *r, *run = NULL;
    int32_t i = 0, lo = 0;
    size_t at = 0;
    for (; (r = spec_walk_next(&w)); i++) {
        bool joins =
            run && w.layer == run_layer && ((r->group && r->group == run->group) || w.expert > 0);
        if (!joins && i > 0) {
            at = place_run(list, block, lo, i - lo, at);
            lo = i;
        }
        run = r;
        run_layer = w.layer;
    }
    return place_run(list, block, lo, i - lo, at);
}

static void list_parts(struct model *m, const struct model_share *s)
{
    m->ranks = s->at;
    m->share = s->param;
    for (int64_t l = 0; l < m->cfg.n_layer; l++)
        m->layer[l].n_kv_here = s->n_kv_head[l];
    m->d_conv = s->d_conv;
    m->part = xcalloc((size_t)m->n_param + 1, sizeof *m->part);
    for (int32_t i = 0; i < m->n_param; i++) {
        struct part part = part_of(&m->param[i], &s->param[i], &s->at);
        m->part[i] = m->param[i];
        part_describe(&m->part[i], &part);
    }
}

/* As wide as the rows that the matrices multiply. Cells of bf16 hold pairs of a key's numbers: odd
 * heads have f32, whatever was wanted. */
enum k_type model_pick_kv(const struct model *m, int wanted)
{
    if (m->cfg.d_head % 2 || m->cfg.full_d_head % 2)
        return K_F32;
    return wanted < 0 ? k_format(model_main_type(m))->rows : (enum k_type)wanted;
}

/* Codes want what they are asked for to be there: keys, of even heads. */
static int check_kv_type(const struct model *m, int wanted, struct err *e)
{
    int64_t n = 0;
    if (wanted != K_INT8)
        return 0;
    if (m->cfg.d_head % 2 || m->cfg.full_d_head % 2)
        return err_set(
            e, ERR_BAD_INPUT,
            "keys and values in int8: heads of %d numbers, which is odd; f32 is for these",
            m->cfg.d_head % 2 ? (int)m->cfg.d_head : (int)m->cfg.full_d_head);
    for (int64_t l = 0; l < m->cfg.n_layer; l++)
        n += m->layer[l].mixer == MIXER_ATTENTION;
    if (n == 0)
        return err_set(e, ERR_BAD_INPUT,
                       "keys and values in int8: no layer of the model keeps any");
    return 0;
}

struct model *model_new(const struct config *c, const struct model_options *o, struct device *d,
                        struct err *e)
{
    struct model *m = xcalloc(1, sizeof *m);
    m->cfg = *c;
    m->device = d;
    m->ctx = o->ctx > 0 ? o->ctx : c->max_pos;
    rope_table_sizes(m);
    m->rope_short = m->rope[LAYER_ROPE].d_rot ? rope_short_tokens(c, m->ctx) : 0;
    m->d_conv = config_conv_width(c);
    m->ranks.size = 1;
    list_params(m);
    if (formats_pick(m, o, e) || check_kv_type(m, o->kv_type, e))
        goto fail;
    m->kv_type = model_pick_kv(m, o->kv_type);
    place_all(m, m->param, NULL);
    if (o->share)
        list_parts(m, o->share);
    size_t end = aligned(place_all(m, model_stored(m), NULL));
    m->block_bytes = end + model_order_bytes(m);
    if (!d)
        return m;
    m->block = device_alloc(d, m->block_bytes, "the model's parameters", e);
    if (!m->block)
        goto fail;
    place_all(m, model_stored(m), m->block);
    if (model_order_put(m, (char *)m->block + end, e) || rope_table_make(m, e))
        goto fail;
    return m;
fail:
    model_free(m);
    return NULL;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    if (m->device) {
        for (int i = 0; i < LAYER_ROPE_COUNT; i++) {
            device_mem_free(m->device, m->rope[i].cos);
            device_mem_free(m->device, m->rope[i].sin);
        }
        device_mem_free(m->device, m->q_scale);
        device_mem_free(m->device, m->block);
    }
    model_order_release(m);
    free(m->part);
    free(m->param);
    free(m->names);
    free(m->layer);
    free(m);
}

int32_t model_turn(const struct model *m, int64_t n_tok)
{
    return m->rope_short && n_tok <= m->rope_short ? (int32_t)m->ctx : 0;
}

int64_t model_turn_rows(const struct model *m)
{
    return m->ctx + m->rope_short;
}

struct param *model_stored(const struct model *m)
{
    return m->part ? m->part : m->param;
}

struct param *model_layer(const struct model *m, int64_t layer, enum slot s)
{
    return m->layer[layer].slot[s - SLOT_GLOBAL_COUNT];
}

struct param *model_find(const struct model *m, const char *name)
{
    for (int32_t i = 0; i < m->n_param; i++)
        if (strcmp(m->param[i].name, name) == 0)
            return &m->param[i];
    return NULL;
}

const struct param *model_lm_head(const struct model *m)
{
    return m->slot[SLOT_LM_HEAD] ? m->slot[SLOT_LM_HEAD] : m->slot[SLOT_TOKEN_EMBED];
}

size_t model_rope_bytes(const struct model *m)
{
    size_t n = 0;
    for (int i = 0; i < LAYER_ROPE_COUNT; i++)
        n += 2 * (size_t)model_turn_rows(m) * (size_t)(m->rope[i].d_rot / 2) * sizeof(float);
    return n;
}

enum k_type model_cell_type(const struct model *m, int64_t layer)
{
    return m->layer[layer].mixer == MIXER_ATTENTION ? m->kv_type : k_format(m->kv_type)->rows;
}

size_t model_cell_bytes(const struct model *m, int64_t layer)
{
    const struct layer *y = &m->layer[layer];
    if (y->mixer != MIXER_ATTENTION)
        return conv_cell_bytes(model_cell_type(m, layer), m->d_conv);
    if (y->kv_layer != layer)
        return 0;
    return 2 * k_kv_cell_bytes(m->kv_type, y->d_head) * (size_t)y->n_kv_here;
}

size_t model_kv_token_bytes(const struct model *m)
{
    size_t sum = 0;
    for (int64_t l = 0; l < m->cfg.n_layer; l++)
        sum += model_cell_bytes(m, l);
    return sum / K_CELL;
}

size_t model_layer_state_bytes(const struct model *m, int64_t layer)
{
    const struct config *c = &m->cfg;
    if (!config_has_states(c, layer))
        return 0;
    size_t bytes = (size_t)c->n_state_v * (size_t)c->d_state_k * (size_t)c->d_state_v;
    return aligned(bytes * sizeof(float));
}

size_t model_state_bytes(const struct model *m)
{
    size_t sum = 0;
    for (int64_t l = 0; l < m->cfg.n_layer; l++)
        sum += model_layer_state_bytes(m, l);
    return sum;
}

int32_t model_cut_most(const struct model *m)
{
    bool has_conv = false;
    for (int64_t l = 0; l < m->cfg.n_layer; l++)
        has_conv = has_conv || m->layer[l].mixer == MIXER_CONV;
    if (model_state_bytes(m))
        return 0;
    return has_conv ? conv_cut_most(m->cfg.n_tap) : INT32_MAX;
}
