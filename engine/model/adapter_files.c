/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file claims is checked in this order: the base that it was trained over, where it says
 * so; every tensor is a half of a product that takes
 * adapters, every half has its other one, every product that the config names has both; then
 * shapes.
 */
#include "engine/model/adapter_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/path.h"

#define HALF_A ".lora_A.weight"
#define HALF_B ".lora_B.weight"

static const struct param *find_product(const struct model *m, const char *module)
{
    size_t n = strlen(module);
    for (int32_t i = 0; i < m->n_param; i++) {
        const struct param *p = &m->param[i];
        if (strncmp(p->name, module, n) == 0 && strcmp(p->name + n, ".weight") == 0)
            return p;
    }
    return NULL;
}

/* Under each of the family's prefixes. */
static const struct param *find_module(const struct model *m, const char *module)
{
    const char *const *prefix = spec_prefix(&m->cfg);
    const struct param *p = NULL;
    for (; *prefix && !p; prefix++) {
        size_t n = strlen(*prefix);
        if (strncmp(module, *prefix, n) == 0)
            p = find_product(m, module + n);
    }
    return p;
}

/* "base_model.model.MODULE.lora_A.weight" */
static int split_name(const struct weight *w, char *module, bool *is_a, struct err *e)
{
    const char *name = w->t->name;
    size_t n = strlen(name), head = strlen(PEFT_PREFIX), tail = strlen(HALF_A);
    if (n <= head + tail || n - head - tail >= ADAPTER_MODULE_BYTES ||
        strncmp(name, PEFT_PREFIX, head) != 0)
        n = 0;
    *is_a = n && strcmp(name + n - tail, HALF_A) == 0;
    if (!n || (!*is_a && strcmp(name + n - tail, HALF_B) != 0))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %.200s: expected " PEFT_PREFIX "MODULE" HALF_A " or " HALF_B,
                       PEFT_TENSORS_NAME, name);
    memcpy(module, name + head, n - head - tail);
    module[n - head - tail] = 0;
    return 0;
}

static int add_half(struct adapter_files *f, const struct weight *w, struct err *e)
{
    char module[ADAPTER_MODULE_BYTES];
    bool is_a;
    if (split_name(w, module, &is_a, e))
        return -1;
    const struct param *p = find_module(f->m, module);
    if (!p)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: the base model has no product %.200s",
                       PEFT_TENSORS_NAME, w->t->name, module);
    if (p->lora < 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: %.200s: %s takes no adapter here",
                       PEFT_TENSORS_NAME, w->t->name, p->name);
    if (peft_claim(&f->config, module) == PEFT_HAS_NOT)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %s does not name this module",
                       PEFT_TENSORS_NAME, w->t->name, PEFT_CONFIG_NAME);
    struct adapter_halves *h = &f->at[p->lora];
    const struct weight **half = is_a ? &h->a : &h->b;
    if (*half)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: the same product as %.200s",
                       PEFT_TENSORS_NAME, w->t->name, (*half)->t->name);
    *half = w;
    memcpy(h->module, module, sizeof module);
    return 0;
}

/* Both halves or none, and both where the config says so. */
static int check_pair(const struct adapter_files *f, const struct adapter_halves *h, struct err *e)
{
    char module[ADAPTER_MODULE_BYTES];
    const char *prefix = spec_prefix(&f->m->cfg)[0];
    size_t n = strlen(h->param->name) - strlen(".weight");
    if (h->a && h->b)
        return 0;
    if (h->a || h->b)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s is there, its other half %s%.200s%s is not",
                       PEFT_TENSORS_NAME, (h->a ? h->a : h->b)->t->name, PEFT_PREFIX, h->module,
                       h->a ? HALF_B : HALF_A);
    snprintf(module, sizeof module, "%s%.*s", prefix, (int)n, h->param->name);
    if (peft_claim(&f->config, module) == PEFT_HAS)
        return err_set(e, ERR_BAD_INPUT, "%s: %s names %s, of which no tensor is there",
                       PEFT_TENSORS_NAME, PEFT_CONFIG_NAME, module);
    return 0;
}

static int check_shape(const struct adapter_files *f, struct adapter_halves *h, struct err *e)
{
    int64_t rank = peft_rank(&f->config, h->module);
    const int64_t a[2] = {rank, h->param->k}, b[2] = {h->param->n, rank};
    return weights_want(f->tensors, h->a->t->name, 2, a, &h->a, e) ||
                   weights_want(f->tensors, h->b->t->name, 2, b, &h->b, e)
               ? -1
               : 0;
}

static int open_tensors(struct adapter_files *f, const char *dir, struct err *e)
{
    char *path = path_join(dir, PEFT_TENSORS_NAME);
    f->tensors = weights_open_file(path, e);
    free(path);
    if (f->tensors)
        return 0;
    if (!path_exists(dir, PEFT_TENSORS_NAME) && path_exists(dir, "adapter_model.bin"))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s is not there (adapter_model.bin can run code and is not read: save the "
                       "adapter with safe_serialization)",
                       PEFT_TENSORS_NAME);
    return -1;
}

static int pair_up(struct adapter_files *f, struct err *e)
{
    size_t n = weights_count(f->tensors), most = 2 * (size_t)f->m->n_lora;
    if (n == 0 || n > most)
        return err_set(e, ERR_BAD_INPUT, "%s: %zu tensors: the base model takes 2 to %zu",
                       PEFT_TENSORS_NAME, n, most);
    for (size_t i = 0; i < n; i++)
        if (add_half(f, weights_at(f->tensors, i), e))
            return -1;
    for (int32_t i = 0; i < f->m->n_lora; i++)
        if (check_pair(f, &f->at[i], e))
            return -1;
    for (int32_t i = 0; i < f->m->n_lora; i++)
        if (f->at[i].a && check_shape(f, &f->at[i], e))
            return -1;
    return 0;
}

/* Names and shapes fit any model of the same form; the numbers were learnt beside one. */
static int check_base(struct adapter_files *f, const char *dir, struct err *e)
{
    char of[BASE_ID_TEXT_BYTES], here[BASE_ID_TEXT_BYTES], name[BASE_NAME_BYTES];
    if (base_id_get(dir, &f->base, name, e))
        return -1;
    if (base_id_match(&f->base, &f->m->base) != BASE_OTHER)
        return 0;
    return err_set(e, ERR_BAD_INPUT,
                   "trained over another base: '%s', %s (" BASE_ID_NAME "); this one is %s", name,
                   base_id_text(&f->base, of), base_id_text(&f->m->base, here));
}

int adapter_files_init(struct adapter_files *f, const struct model *m, const char *dir,
                       struct err *e)
{
    *f = (struct adapter_files){.m = m};
    f->at = xcalloc((size_t)m->n_lora + 1, sizeof *f->at);
    for (int32_t i = 0; i < m->n_param; i++)
        if (m->param[i].lora >= 0)
            f->at[m->param[i].lora].param = &m->param[i];
    return peft_read(&f->config, dir, e) || check_base(f, dir, e) || open_tensors(f, dir, e) ||
                   pair_up(f, e)
               ? -1
               : 0;
}

void adapter_files_release(struct adapter_files *f)
{
    peft_release(&f->config);
    weights_close(f->tensors);
    free(f->at);
}

double adapter_files_scale(const struct adapter_files *f, const struct adapter_halves *h)
{
    return peft_scale(&f->config, h->module);
}

float *adapter_half_read(const struct weight *w, struct err *e)
{
    size_t n = (size_t)(weight_rows(w) * weight_row_len(w));
    float *x = try_alloc(n, sizeof *x, w->t->name, e), zero = 0;
    if (!x || weight_read_f32(w, 0, weight_rows(w), x, e))
        goto fail;
    for (size_t i = 0; i < n; i++)
        zero += x[i] * 0.0f; /* NaN once a number is not finite */
    if (!isnan(zero))
        return x;
    err_set(e, ERR_BAD_INPUT, "%s: %.200s: holds numbers that are not finite", PEFT_TENSORS_NAME,
            w->t->name);
fail:
    mem_free(x);
    return NULL;
}
