/* SPDX-License-Identifier: Apache-2.0
 *
 * See peft.h. Patterns of ranks and alphas are regular expressions to PEFT; those that it or people
 * write are module names with at most a '^' before them, or ".*\." as PEFT puts it before names of
 * experts' parameters, and these are what is taken here.
 */
#include "engine/load/peft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/json.h"
#include "engine/load/path.h"

enum { MODULE_MAX = 512, LAYER_MAX = 1 << 20 };

#define ALPHA_MAX 1e6

/* Fields that say nothing about what the tensors mean, or that peft_read reads itself. */
static const char *const known[] = {
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "init_lora_weights",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "target_parameters",
    "task_type",
    "use_dora",
    "use_rslora",
};

/* Ways of drawing first values that leave the base model's weights as they are. */
static const char *const plain_init[] = {"gaussian", "eva", "orthogonal"};

static bool is_one_of(const char *s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(s, list[i]) == 0)
            return true;
    return false;
}

#define IS_ONE_OF(s, list) is_one_of((s), (list), sizeof(list) / sizeof *(list))

/* ---- fields -------------------------------------------------------------------------------- */

/* null, false, 0, "", [] and {} ask for nothing. */
static bool is_neutral(const struct json *v)
{
    bool flag = true;
    double num = 1;
    const char *text = "x";
    switch (json_kind(v)) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
        return json_as_bool(v, &flag, NULL) == 0 && !flag;
    case JSON_NUMBER:
        return json_as_num(v, &num, NULL) == 0 && !(num < 0) && !(num > 0);
    case JSON_STRING:
        return json_as_str(v, &text, NULL) == 0 && !*text;
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    return json_count(v) == 0;
}

static int check_others(const struct json *root, struct err *e)
{
    struct json m;
    json_each(m, *root)
    {
        if (!IS_ONE_OF(json_key(&m), known) && !is_neutral(&m))
            return json_err(&m, e, ERR_UNSUPPORTED, "adapters with this are not supported");
    }
    return 0;
}

static int check_text(const struct json *root, const char *key, const char *want, bool is_needed,
                      struct err *e)
{
    const char *found = want;
    struct json m = json_member(root, key);
    if (is_needed ? json_get_str(root, key, &found, e) : json_opt_str(root, key, &found, e))
        return -1;
    if (strcmp(found, want) == 0)
        return 0;
    return json_err(&m, e, ERR_UNSUPPORTED, "'%.60s' is not supported, only '%s' is", found, want);
}

static int check_init(const struct json *root, struct err *e)
{
    const char *how = plain_init[0];
    struct json m = json_member(root, "init_lora_weights");
    if (json_absent(&m) || json_is(&m, JSON_BOOL))
        return 0;
    if (json_as_str(&m, &how, e))
        return -1;
    if (IS_ONE_OF(how, plain_init))
        return 0;
    return json_err(&m, e, ERR_UNSUPPORTED,
                    "'%.60s' changes the base model's weights: save it as a plain LoRA adapter",
                    how);
}

/* ---- lists --------------------------------------------------------------------------------- */

static int list_new(const struct json *v, size_t size, void *out, size_t *n, struct err *e)
{
    *n = json_count(v);
    if (*n > PEFT_LIST_MAX)
        return json_err(v, e, ERR_TOO_LARGE, "%zu entries, at most %d", *n, PEFT_LIST_MAX);
    *(void **)out = xcalloc(*n + 1, size);
    return 0;
}

/* A name with points; a caret before it: the whole path. */
static int parse_pattern(const struct json *at, const char *text, struct peft_pattern *p,
                         struct err *e)
{
    static const char any[] = ".*\\.";
    size_t n_any = strncmp(text, any, sizeof any - 1) ? 0 : sizeof any - 1;
    p->is_whole = *text == '^';
    p->end = text + p->is_whole + n_any;
    size_t n = strlen(p->end);
    if (n == 0 || n > MODULE_MAX)
        return json_err(at, e, ERR_BAD_INPUT, "a module's name has 1 to %d bytes, found %zu",
                        MODULE_MAX, n);
    if (strcspn(p->end, "\\^$*+?()[]{}|") < n)
        return json_err(at, e, ERR_UNSUPPORTED, "'%.100s' is an expression, not a module's name",
                        text);
    return 0;
}

static int parse_patterns(const struct json *root, const char *key, double lo, double hi,
                          struct peft_pattern **out, size_t *n, struct err *e)
{
    struct json v = {.node = NULL}, m;
    struct peft_pattern *p;
    if (json_opt(root, key, JSON_OBJECT, &v, e))
        return -1;
    if (!v.node)
        return 0;
    if (list_new(&v, sizeof *p, out, n, e))
        return -1;
    p = *out;
    json_each(m, v)
    {
        if (parse_pattern(&m, json_key(&m), p, e) || json_as_num(&m, &p->value, e))
            return -1;
        if (!(p->value >= lo && p->value <= hi))
            return json_err(&m, e, ERR_BAD_INPUT, "expected a number from %g to %g, found %g", lo,
                            hi, p->value);
        p++;
    }
    return 0;
}

static int parse_names(const struct json *v, struct peft_pattern **out, size_t *n, struct err *e)
{
    struct json m;
    if (list_new(v, sizeof **out, out, n, e))
        return -1;
    struct peft_pattern *t = *out;
    json_each(m, *v)
    {
        if (json_as_str(&m, &t->end, e))
            return -1;
        t++;
    }
    return 0;
}

static int parse_params(struct peft *p, const struct json *root, struct err *e)
{
    struct json v = {.node = NULL};
    if (json_opt(root, "target_parameters", JSON_ARRAY, &v, e))
        return -1;
    return v.node ? parse_names(&v, &p->param, &p->n_param, e) : 0;
}

static int parse_saved(struct peft *p, const struct json *root, struct err *e)
{
    struct json v = {.node = NULL};
    if (json_opt(root, "modules_to_save", JSON_ARRAY, &v, e) ||
        json_opt_bool(root, "ensure_weight_tying", &p->ties, e))
        return -1;
    return v.node ? parse_names(&v, &p->saved, &p->n_saved, e) : 0;
}

/* Of parameters alone no module need be named. */
static int parse_targets(struct peft *p, const struct json *root, struct err *e)
{
    struct json v = json_member(root, "target_modules"), not = json_member(root, "exclude_modules");
    p->is_open = json_is(&v, JSON_STRING) && !is_neutral(&v);
    if (parse_params(p, root, e))
        return -1;
    if (p->is_open || (p->n_param && (json_absent(&v) || is_neutral(&v))))
        return 0;
    if (json_get(root, "target_modules", JSON_ARRAY, &v, e) ||
        parse_names(&v, &p->target, &p->n_target, e))
        return -1;
    if (p->n_target == 0)
        return json_err(&v, e, ERR_BAD_INPUT, "names no module");
    p->is_open = !json_absent(&not ) && !is_neutral(&not );
    return 0;
}

static int parse_layers(struct peft *p, const struct json *root, struct err *e)
{
    struct json v = json_member(root, "layers_to_transform"), m,
                pattern = json_member(root, "layers_pattern");
    if (json_absent(&v))
        return 0;
    if (!json_absent(&pattern) && !is_neutral(&pattern))
        p->is_open = true; /* it says which of several lists of layers is meant */
    if (json_is(&v, JSON_NUMBER)) {
        p->layer = xcalloc(1, sizeof *p->layer);
        p->n_layer = 1;
        return json_as_int(&v, 0, LAYER_MAX, p->layer, e);
    }
    if (json_want(&v, JSON_ARRAY, e) || list_new(&v, sizeof *p->layer, &p->layer, &p->n_layer, e))
        return -1;
    int64_t *to = p->layer;
    json_each(m, v)
    {
        if (json_as_int(&m, 0, LAYER_MAX, to++, e))
            return -1;
    }
    return 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int parse_root(struct peft *p, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "lora_alpha");
    double dropout = 0;
    bool flag;
    p->rank = 8; /* LoraConfig's own */
    p->alpha = 8;
    if (json_want(root, JSON_OBJECT, e) || check_text(root, "peft_type", "LORA", true, e) ||
        check_text(root, "bias", "none", false, e) || check_init(root, e) ||
        check_others(root, e) || json_opt_int(root, "r", 1, PEFT_RANK_MAX, &p->rank, e) ||
        json_opt_num(root, "lora_alpha", &p->alpha, e) ||
        json_opt_num(root, "lora_dropout", &dropout, e) ||
        json_opt_bool(root, "use_rslora", &p->is_rs, e) ||
        json_opt_bool(root, "use_dora", &p->is_dora, e) ||
        json_opt_bool(root, "fan_in_fan_out", &flag, e) ||
        json_opt_bool(root, "inference_mode", &flag, e) || parse_targets(p, root, e) ||
        parse_saved(p, root, e) || parse_layers(p, root, e) ||
        parse_patterns(root, "rank_pattern", 1, PEFT_RANK_MAX, &p->ranks, &p->n_rank, e) ||
        parse_patterns(root, "alpha_pattern", -ALPHA_MAX, ALPHA_MAX, &p->alphas, &p->n_alpha, e))
        return -1;
    if (!(fabs(p->alpha) <= ALPHA_MAX))
        return json_err(&m, e, ERR_BAD_INPUT, "expected a number from %g to %g, found %g",
                        -ALPHA_MAX, ALPHA_MAX, p->alpha);
    for (size_t i = 0; i < p->n_rank; i++)
        if (p->ranks[i].value > floor(p->ranks[i].value))
            return err_set(e, ERR_BAD_INPUT, "%s: rank_pattern.%.100s: %g is not a whole number",
                           PEFT_CONFIG_NAME, p->ranks[i].end, p->ranks[i].value);
    return 0;
}

static int parse_doc(struct peft *p, struct json_doc *doc, struct err *e)
{
    *p = (struct peft){.doc = doc};
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    if (parse_root(p, &root, e) == 0)
        return 0;
    peft_release(p);
    return -1;
}

int peft_parse(struct peft *p, const char *text, size_t len, struct err *e)
{
    return parse_doc(p, json_parse(text, len, PEFT_CONFIG_NAME, &json_rules_config, e), e);
}

int peft_read(struct peft *p, const char *dir, struct err *e)
{
    char *path = path_join(dir, PEFT_CONFIG_NAME);
    int rc = parse_doc(p, json_read(path, PEFT_CONFIG_NAME, &json_rules_config, e), e);
    free(path);
    return rc;
}

void peft_release(struct peft *p)
{
    json_free(p->doc);
    free(p->target);
    free(p->param);
    free(p->saved);
    free(p->ranks);
    free(p->alphas);
    free(p->layer);
    *p = (struct peft){0};
}

/* ---- asking -------------------------------------------------------------------------------- */

static bool matches(const struct peft_pattern *p, const char *module)
{
    size_t n = strlen(module), k = strlen(p->end);
    if (k > n || (p->is_whole && k < n) || memcmp(module + n - k, p->end, k) != 0)
        return false;
    return k == n || module[n - k - 1] == '.';
}

static const struct peft_pattern *find(const struct peft_pattern *p, size_t n, const char *module)
{
    for (size_t i = 0; i < n; i++)
        if (matches(&p[i], module))
            return &p[i];
    return NULL;
}

/* The number that a module's path holds: its layer; -1: none. */
static int64_t layer_of(const char *module)
{
    for (const char *at = strchr(module, '.'); at; at = strchr(at + 1, '.')) {
        char *end;
        if (at[1] < '0' || at[1] > '9')
            continue;
        long long n = strtoll(at + 1, &end, 10);
        if (*end == '.')
            return n;
    }
    return -1;
}

static bool has_layer(const struct peft *p, int64_t layer)
{
    for (size_t i = 0; i < p->n_layer; i++)
        if (p->layer[i] == layer)
            return true;
    return p->n_layer == 0;
}

enum peft_claim peft_claim(const struct peft *p, const char *module)
{
    bool is_any = p->is_open && p->n_target == 0;
    if (!has_layer(p, layer_of(module)) || !(is_any || find(p->target, p->n_target, module)))
        return PEFT_HAS_NOT;
    return p->is_open ? PEFT_MAY_HAVE : PEFT_HAS;
}

bool peft_claims_param(const struct peft *p, const char *name)
{
    return find(p->param, p->n_param, name) != NULL;
}

bool peft_claims_saved(const struct peft *p, const char *module)
{
    return find(p->saved, p->n_saved, module) != NULL;
}

int64_t peft_rank(const struct peft *p, const char *module)
{
    const struct peft_pattern *own = find(p->ranks, p->n_rank, module);
    return own ? (int64_t)own->value : p->rank;
}

double peft_scale(const struct peft *p, const char *module)
{
    const struct peft_pattern *own = find(p->alphas, p->n_alpha, module);
    double rank = (double)peft_rank(p, module);
    return (own ? own->value : p->alpha) / (p->is_rs ? sqrt(rank) : rank);
}
