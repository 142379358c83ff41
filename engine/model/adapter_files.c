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
#include "engine/model/saved.h"

#define HALF_A    ".lora_A.weight"
#define HALF_B    ".lora_B.weight"
#define MAGNITUDE ".lora_magnitude_vector"

static int64_t parts_of(const struct param *product)
{
    return product->n_half ? product->lora_n / product->n * product->n_half : 1;
}

/* All experts' gates, ups and downs follow each other. */
const struct param *adapter_product_of(const struct model *m, const struct param *p, int64_t *at)
{
    for (const struct param *q = p; q >= m->param; q--) {
        *at = p - q;
        if (q->lora >= 0)
            return *at < parts_of(q) ? q : NULL;
    }
    return NULL;
}

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

/* Whether a module is the one that holds a tensor of all experts: of two that are adapted there the
 * first is the inner one. */
static bool is_stack(const struct adapter_files *f, const struct param *p, const char *module,
                     const char *prefix)
{
    static const char inner[] = ".base_layer";
    char name[ADAPTER_MODULE_BYTES];
    size_t n = strlen(module), end = sizeof inner - 1;
    bool is_inner = n > end && strcmp(module + n - end, inner) == 0;
    n -= is_inner ? end : 0;
    if (!p->n_half || strncmp(p->lora_name, module, n) != 0 || p->lora_name[n] != '.' ||
        strchr(p->lora_name + n + 1, '.'))
        return false;
    bool is_first = p->lora_n > p->n;
    snprintf(name, sizeof name, "%s%.*s.down_proj", prefix, (int)n, p->lora_name);
    return is_inner ? is_first : is_first != peft_claims_param(&f->config, name);
}

/* What a tensor is of its module. */
enum role { ROLE_A, ROLE_B, ROLE_MAGNITUDE, ROLE_COUNT };

/* Whether a name is PREFIX, MODULE and `tail`, of which it takes the module. */
static bool has_tail(const char *name, const char *tail, char module[ADAPTER_MODULE_BYTES])
{
    size_t n = strlen(name), head = strlen(PEFT_PREFIX), end = strlen(tail);
    if (n <= head + end || n - head - end >= ADAPTER_MODULE_BYTES ||
        strncmp(name, PEFT_PREFIX, head) != 0 || strcmp(name + n - end, tail) != 0)
        return false;
    memcpy(module, name + head, n - head - end);
    module[n - head - end] = 0;
    return true;
}

/* "base_model.model.MODULE.lora_A.weight" */
static int split_name(const struct adapter_files *f, const struct weight *w, char *module,
                      enum role *role, struct err *e)
{
    static const char *const tail[ROLE_COUNT] = {HALF_A, HALF_B, MAGNITUDE};
    for (*role = ROLE_A; *role < ROLE_COUNT && !has_tail(w->t->name, tail[*role], module);)
        ++*role;
    if (*role == ROLE_COUNT)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: %.200s: expected " PEFT_PREFIX "MODULE" HALF_A " or " HALF_B,
                       PEFT_TENSORS_NAME, w->t->name);
    if (*role == ROLE_MAGNITUDE && !f->config.is_dora)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %s does not say use_dora", PEFT_TENSORS_NAME,
                       w->t->name, PEFT_CONFIG_NAME);
    return 0;
}

/* Rows [row, row + n_row), all of them finite. */
static int read_rows(const struct weight *w, int64_t row, int64_t n_row, float *x, struct err *e)
{
    int64_t n = n_row * weight_row_len(w);
    float zero = 0;
    if (weight_read_f32(w, row, n_row, x, e))
        return -1;
    for (int64_t i = 0; i < n; i++)
        zero += x[i] * 0.0f; /* NaN once a number is not finite */
    return isnan(zero) ? err_set(e, ERR_BAD_INPUT, "%s: %.200s: holds numbers that are not finite",
                                 PEFT_TENSORS_NAME, w->t->name)
                       : 0;
}

/* ---- matrices that are whole ---------------------------------------------------------------- */

/* "base_model.model.MODULE.weight" of one that an adapter may have; -1: it is none of these. */
static int saved_of(const struct adapter_files *f, const struct weight *w,
                    char module[ADAPTER_MODULE_BYTES])
{
    return has_tail(w->t->name, ".weight", module) ? saved_find(f->m, module) : -1;
}

/* Whether the two are one, under two names, of which the config has the table's alone. */
static bool is_tied(const struct adapter_files *f)
{
    return f->config.ties && f->config.n_saved > 0 && f->m->cfg.is_tied;
}

static int add_saved(struct adapter_files *f, const struct weight *w, int s, const char *module,
                     struct err *e)
{
    if (!peft_claims_saved(&f->config, module) && !is_tied(f))
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %s does not name this module",
                       PEFT_TENSORS_NAME, w->t->name, PEFT_CONFIG_NAME);
    if (f->saved[s])
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: the same matrix as %.200s", PEFT_TENSORS_NAME,
                       w->t->name, f->saved[s]->t->name);
    f->saved[s] = w;
    return 0;
}

/* Every module that the config says is whole is one that may be, and is there. */
static int check_claims(const struct adapter_files *f, struct err *e)
{
    char module[SAVED_COUNT][SAVED_NAME_BYTES];
    struct peft one = {.n_saved = 1};
    for (int s = 0; s < SAVED_COUNT && f->config.n_saved; s++)
        if (saved_param(f->m, (enum saved)s))
            saved_module(f->m, (enum saved)s, module[s]);
        else
            *module[s] = 0;
    for (size_t i = 0; i < f->config.n_saved; i++) {
        bool is_known = false;
        one.saved = &f->config.saved[i];
        for (int s = 0; s < SAVED_COUNT; s++)
            is_known = is_known || (*module[s] && peft_claims_saved(&one, module[s]));
        if (!is_known)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: modules_to_save: '%.100s': of whole modules only the lm_head and "
                           "the table of tokens are supported",
                           PEFT_CONFIG_NAME, f->config.saved[i].end);
    }
    return 0;
}

static void tie(struct adapter_files *f)
{
    if (is_tied(f) && f->saved[SAVED_EMBED])
        f->saved[SAVED_HEAD] = f->saved[SAVED_EMBED];
}

static int check_saved(struct adapter_files *f, struct err *e)
{
    char module[SAVED_NAME_BYTES];
    tie(f);
    for (int s = 0; s < SAVED_COUNT; s++) {
        const struct param *p = saved_param(f->m, (enum saved)s);
        if (!p)
            continue;
        saved_module(f->m, (enum saved)s, module);
        if (!f->saved[s] && peft_claims_saved(&f->config, module))
            return err_set(e, ERR_BAD_INPUT, "%s: %s names %s, of which no tensor is there",
                           PEFT_TENSORS_NAME, PEFT_CONFIG_NAME, module);
        const int64_t dim[2] = {p->n, p->k};
        if (f->saved[s] && weights_want(f->tensors, f->saved[s]->t->name, 2, dim, &f->saved[s], e))
            return -1;
    }
    return 0;
}

int adapter_saved_read(const struct adapter_files *f, enum saved s, int64_t row, int64_t n_row,
                       float *x, struct err *e)
{
    return read_rows(f->saved[s], row, n_row, x, e);
}

/* ---- halves --------------------------------------------------------------------------------- */

/* What a module of the file is here. */
struct place {
    struct adapter_halves *halves;
    struct adapter_pair *pair;
    char module[ADAPTER_MODULE_BYTES]; /* as the config has it */
    bool is_param;
};

static struct adapter_pair *each_of(struct adapter_halves *h, int64_t at)
{
    if (!h->each)
        h->each = xcalloc((size_t)parts_of(h->param), sizeof *h->each);
    return &h->each[at];
}

/* Under one of the family's prefixes. refused: a product of this name that takes no adapter. */
static bool place_under(struct adapter_files *f, const char *module, const char *prefix,
                        struct place *to, const struct param **refused)
{
    size_t n = strlen(prefix);
    int64_t at;
    if (strncmp(module, prefix, n) != 0)
        return false;
    for (int32_t i = 0; i < f->m->n_lora; i++) {
        struct adapter_halves *h = &f->at[i];
        if (!is_stack(f, h->param, module + n, prefix))
            continue;
        *to = (struct place){.halves = h, .pair = &h->all, .is_param = true};
        snprintf(to->module, sizeof to->module, "%s%s", prefix, h->param->lora_name);
        return true;
    }
    const struct param *p = find_product(f->m, module + n);
    const struct param *product = p ? adapter_product_of(f->m, p, &at) : NULL;
    *refused = p && !product ? p : *refused;
    if (!product)
        return false;
    struct adapter_halves *h = &f->at[product->lora];
    *to = (struct place){.halves = h, .pair = product->n_half ? each_of(h, at) : &h->all};
    snprintf(to->module, sizeof to->module, "%s", module);
    return true;
}

static int find_place(struct adapter_files *f, const struct weight *w, const char *module,
                      struct place *to, struct err *e)
{
    const struct param *refused = NULL;
    const char *const *prefix = spec_prefix(&f->m->cfg);
    while (*prefix && !place_under(f, module, *prefix, to, &refused))
        prefix++;
    if (*prefix)
        return 0;
    if (refused)
        return err_set(e, ERR_UNSUPPORTED, "%s: %.200s: %s takes no adapter here",
                       PEFT_TENSORS_NAME, w->t->name, refused->name);
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s: the base model has no product %.200s",
                   PEFT_TENSORS_NAME, w->t->name, module);
}

static int add_half(struct adapter_files *f, const struct weight *w, struct err *e)
{
    char module[ADAPTER_MODULE_BYTES];
    struct place to;
    enum role role;
    int saved = saved_of(f, w, module);
    if (saved >= 0)
        return add_saved(f, w, saved, module, e);
    if (split_name(f, w, module, &role, e) || find_place(f, w, module, &to, e))
        return -1;
    if (to.is_param ? !peft_claims_param(&f->config, to.module)
                    : peft_claim(&f->config, module) == PEFT_HAS_NOT)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: %s does not name this %s", PEFT_TENSORS_NAME,
                       w->t->name, PEFT_CONFIG_NAME, to.is_param ? "parameter" : "module");
    const struct weight **at = role == ROLE_A   ? &to.pair->a
                               : role == ROLE_B ? &to.pair->b
                                                : &to.pair->magnitude;
    if (*at)
        return err_set(e, ERR_BAD_INPUT, "%s: %.200s: the same product as %.200s",
                       PEFT_TENSORS_NAME, w->t->name, (*at)->t->name);
    *at = w;
    memcpy(to.pair->module, to.module, sizeof to.module);
    return 0;
}

static int check_both(const struct adapter_pair *p, struct err *e)
{
    if (!p->a == !p->b)
        return 0;
    return err_set(e, ERR_BAD_INPUT, "%s: %.200s is there, its other half is not (%s%.200s%s)",
                   PEFT_TENSORS_NAME, (p->a ? p->a : p->b)->t->name, PEFT_PREFIX, p->module,
                   p->a ? HALF_B : HALF_A);
}

/* All experts' gates, or none, and so of up and down; and not beside a tensor of all. */
static int check_each(const struct adapter_halves *h, struct err *e)
{
    const struct param *p = h->param;
    for (int64_t i = 0; i < parts_of(p); i++) {
        int64_t first = i / p->n_half * p->n_half;
        if (check_both(&h->each[i], e))
            return -1;
        if (!h->each[i].a != !h->each[first].a)
            return err_set(e, ERR_BAD_INPUT,
                           "%s: %s has halves, %s has none: all experts of a layer have, or none",
                           PEFT_TENSORS_NAME, p[h->each[i].a ? i : first].name,
                           p[h->each[i].a ? first : i].name);
    }
    return !h->all.a ? 0
                     : err_set(e, ERR_BAD_INPUT, "%s: %.200s: the same product as %.200s",
                               PEFT_TENSORS_NAME, h->all.a->t->name, p->name);
}

/* Magnitudes beside both halves where the config says so. PEFT has none for experts. */
static int check_magnitude(const struct adapter_files *f, const struct adapter_halves *h,
                           struct err *e)
{
    const struct adapter_pair *p = &h->all;
    if (!f->config.is_dora || (!p->a && !p->magnitude && !h->each))
        return 0;
    if (h->param->n_half)
        return err_set(e, ERR_UNSUPPORTED, "%s: use_dora: experts have no magnitudes (%s)",
                       PEFT_CONFIG_NAME, h->param->lora_name);
    if (!p->a == !p->magnitude)
        return 0;
    return err_set(e, ERR_BAD_INPUT, "%s: use_dora: %s%.200s%s is not there", PEFT_TENSORS_NAME,
                   PEFT_PREFIX, p->module, p->a ? MAGNITUDE : HALF_A);
}

/* Both halves or none, and both where the config says so. */
static int check_pair(const struct adapter_files *f, const struct adapter_halves *h, struct err *e)
{
    char module[ADAPTER_MODULE_BYTES];
    if (check_both(&h->all, e) || (h->each && check_each(h, e)) || check_magnitude(f, h, e))
        return -1;
    if (adapter_halves_are_there(h))
        return 0;
    snprintf(module, sizeof module, "%s%s", spec_prefix(&f->m->cfg)[0], h->param->lora_name);
    if (h->param->n_half ? peft_claims_param(&f->config, module)
                         : peft_claim(&f->config, module) == PEFT_HAS)
        return err_set(e, ERR_BAD_INPUT, "%s: %s names %s, of which no tensor is there",
                       PEFT_TENSORS_NAME, PEFT_CONFIG_NAME, module);
    return 0;
}

static int want(const struct adapter_files *f, struct adapter_pair *p, const int64_t a[2],
                const int64_t b[2], struct err *e)
{
    return weights_want(f->tensors, p->a->t->name, 2, a, &p->a, e) ||
                   weights_want(f->tensors, p->b->t->name, 2, b, &p->b, e)
               ? -1
               : 0;
}

static int check_shape(const struct adapter_files *f, struct adapter_halves *h, struct err *e)
{
    const struct param *p = h->param;
    for (int64_t i = 0; h->each && i < parts_of(p); i++) {
        int64_t rank = peft_rank(&f->config, h->each[i].module);
        const int64_t a[2] = {rank, p->k}, b[2] = {p->n, rank};
        if (h->each[i].a && want(f, &h->each[i], a, b, e))
            return -1;
    }
    if (!h->all.a)
        return 0;
    int64_t rank = peft_rank(&f->config, h->all.module) * (p->n_half ? p->n_half : 1);
    const int64_t a[2] = {rank, p->k}, b[2] = {p->lora_n, rank};
    struct adapter_pair *all = &h->all;
    if (want(f, all, a, b, e))
        return -1;
    return all->magnitude
               ? weights_want(f->tensors, all->magnitude->t->name, 1, &p->n, &all->magnitude, e)
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
    size_t n = weights_count(f->tensors), most = SAVED_COUNT;
    for (int32_t i = 0; i < f->m->n_lora; i++)
        most += (f->config.is_dora ? 3 : 2) * (size_t)parts_of(f->at[i].param);
    if (n == 0 || n > most)
        return err_set(e, ERR_BAD_INPUT, "%s: %zu tensors: the base model takes 2 to %zu",
                       PEFT_TENSORS_NAME, n, most);
    if (check_claims(f, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (add_half(f, weights_at(f->tensors, i), e))
            return -1;
    for (int32_t i = 0; i < f->m->n_lora; i++)
        if (check_pair(f, &f->at[i], e))
            return -1;
    for (int32_t i = 0; i < f->m->n_lora; i++)
        if (check_shape(f, &f->at[i], e))
            return -1;
    return check_saved(f, e);
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
    for (int32_t i = 0; f->at && i < f->m->n_lora; i++)
        free(f->at[i].each);
    free(f->at);
}

/* ---- what the halves are ------------------------------------------------------------------- */

bool adapter_halves_are_there(const struct adapter_halves *h)
{
    return h->all.a || h->each;
}

/* Of pairs of experts' own some may have to take on another scale. */
bool adapter_halves_are_bf16(const struct adapter_halves *h)
{
    return h->all.a && weight_k_type(h->all.a) == K_BF16 && weight_k_type(h->all.b) == K_BF16;
}

/* Ranks of an expert's own pairs before `part` of them: gate, up. */
static int64_t rank_before(const struct adapter_halves *h, int64_t expert, int64_t part)
{
    int64_t rank = 0;
    for (int64_t i = expert; i < part * h->param->n_half; i += h->param->n_half)
        rank += h->each[i].a ? weight_rows(h->each[i].a) : 0;
    return rank;
}

int64_t adapter_halves_rank(const struct adapter_files *f, const struct adapter_halves *h)
{
    int64_t most = 0;
    if (h->all.a)
        return peft_rank(&f->config, h->all.module);
    for (int64_t i = 0; i < h->param->n_half; i++) {
        int64_t rank = rank_before(h, i, parts_of(h->param) / h->param->n_half);
        most = rank > most ? rank : most;
    }
    return most;
}

/* Of pairs of experts' own that of the first of them that there is. */
double adapter_files_scale(const struct adapter_files *f, const struct adapter_halves *h)
{
    const struct adapter_pair *p = &h->all;
    for (int64_t i = 0; !p->a; i++)
        p = &h->each[i];
    return peft_scale(&f->config, p->module);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static float *read_tensor(const struct weight *w, struct err *e)
{
    size_t n = (size_t)(weight_rows(w) * weight_row_len(w));
    float *x = try_alloc(n, sizeof *x, w->t->name, e);
    if (x && read_rows(w, 0, weight_rows(w), x, e) == 0)
        return x;
    mem_free(x);
    return NULL;
}

float *adapter_magnitude_read(const struct adapter_halves *h, struct err *e)
{
    return read_tensor(h->all.magnitude, e);
}

/* Where gate and up stand by turns in files, they do so in their halves. */
int64_t adapter_stack_at(const struct model *m, const struct param *p, int64_t rank, int64_t expert,
                         int64_t output, int64_t r)
{
    if (p->lora_n > p->n && m->cfg.has_expert_bias)
        output = output % p->n * 2 + output / p->n;
    return (output * rank + r) * p->n_half + expert;
}

static float *read_stack(const struct adapter_files *f, const struct adapter_halves *h,
                         struct err *e)
{
    const struct param *p = h->param;
    int64_t rank = adapter_halves_rank(f, h), rows = param_half_rows(p, true, rank);
    float *x = try_alloc((size_t)(rows * rank), sizeof *x, p->lora_name, e);
    float *from = x ? read_tensor(h->all.b, e) : NULL;
    for (int64_t row = 0; from && row < rows; row++)
        for (int64_t r = 0; r < rank; r++)
            x[row * rank + r] =
                from[adapter_stack_at(f->m, p, rank, row / p->lora_n, row % p->lora_n, r)];
    if (!from) {
        mem_free(x);
        x = NULL;
    }
    mem_free(from);
    return x;
}

/* An expert's own pair among the ranks of all of its parts: where they have none there are zeros.
 * B takes on what its scale is more than the product's. */
static int read_part(const struct adapter_files *f, const struct adapter_halves *h, int64_t at,
                     bool is_b, int64_t rank, float *x, struct err *e)
{
    const struct param *p = h->param;
    const struct adapter_pair *pair = &h->each[at];
    int64_t expert = at % p->n_half, part = at / p->n_half, lo = rank_before(h, expert, part);
    float *from = read_tensor(is_b ? pair->b : pair->a, e);
    if (!from)
        return -1;
    int64_t own = weight_rows(pair->a);
    float by = (float)(peft_scale(&f->config, pair->module) / adapter_files_scale(f, h));
    if (!is_b)
        memcpy(x + (expert * rank + lo) * p->k, from, (size_t)(own * p->k) * sizeof *x);
    for (int64_t o = 0; is_b && o < p->n; o++)
        for (int64_t r = 0; r < own; r++)
            x[(expert * p->lora_n + part * p->n + o) * rank + lo + r] = by * from[o * own + r];
    mem_free(from);
    return 0;
}

static float *read_each(const struct adapter_files *f, const struct adapter_halves *h, bool is_b,
                        struct err *e)
{
    const struct param *p = h->param;
    int64_t rank = adapter_halves_rank(f, h);
    size_t n = (size_t)(param_half_rows(p, is_b, rank) * (is_b ? rank : p->k));
    float *x = try_alloc(n, sizeof *x, p->lora_name, e);
    if (x)
        memset(x, 0, n * sizeof *x);
    for (int64_t i = 0; x && i < parts_of(p); i++) {
        if (h->each[i].a && read_part(f, h, i, is_b, rank, x, e)) {
            mem_free(x);
            return NULL;
        }
    }
    return x;
}

float *adapter_half_read(const struct adapter_files *f, const struct adapter_halves *h, bool is_b,
                         struct err *e)
{
    if (h->each)
        return read_each(f, h, is_b, e);
    if (h->param->n_half && is_b)
        return read_stack(f, h, e);
    return read_tensor(is_b ? h->all.b : h->all.a, e);
}
