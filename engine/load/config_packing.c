/* SPDX-License-Identifier: Apache-2.0
 *
 * quantization_config, or the file beside config.json in which older tools say it: which packed
 * weights are read. What the tensors themselves say (bits, groups, zero points) is left to them;
 * here is read what they don't say, and refused what would change what is computed with them.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/load/config_traits.h"
#include "engine/load/json.h"
#include "engine/load/path.h"

static int want_word(const struct json *v, const char *key, const char *word, struct err *e)
{
    struct json m = json_member(v, key);
    const char *text;
    if (json_absent(&m) || json_as_str(&m, &text, e))
        return json_absent(&m) ? 0 : -1;
    return strcasecmp(text, word) == 0
               ? 0
               : json_err(&m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; %s is", text, word);
}

static int want_none(const struct json *v, const char *key, struct err *e)
{
    struct json m = json_member(v, key);
    return json_absent(&m) ? 0 : json_err(&m, e, ERR_UNSUPPORTED, "is not supported; null is");
}

static int parse_block(struct packing *p, const struct json *v, const char *key, struct err *e)
{
    struct json m = json_member(v, key), c;
    int n = 0;
    if (json_absent(&m))
        return 0;
    if (json_want(&m, JSON_ARRAY, e) || json_count(&m) != 2)
        return json_err(&m, e, ERR_BAD_INPUT, "expected outputs and inputs that share a scale");
    json_each(c, m)
    {
        if (json_as_int(&c, 1, INT32_MAX, &p->block[n++], e))
            return -1;
    }
    return 0;
}

/* ---- compressed-tensors -------------------------------------------------------------------- */

/* How codes stand there. Where they are bytes, activations may be meant to be rounded too, which
 * saves time elsewhere and is not done here. */
static const struct {
    const char *name, *type;
    bool takes_activations;
} ct_row[] = {
    {"pack-quantized", "int", false},
    {"int-quantized", "int", true},
    {"float-quantized", "float", true},
};

static int find_ct(const struct json *v, int *row, struct err *e)
{
    struct json m = json_member(v, "format");
    const char *name;
    if (json_absent(&m))
        return 0;
    if (json_as_str(&m, &name, e))
        return -1;
    for (*row = 0; *row < (int)(sizeof ct_row / sizeof *ct_row); ++*row)
        if (strcmp(name, ct_row[*row].name) == 0)
            return 0;
    return json_err(&m, e, ERR_UNSUPPORTED,
                    "'%.40s' is not supported; pack-quantized, int-quantized and float-quantized "
                    "are",
                    name);
}

static int check_ct_group(struct packing *p, const struct json *group, int row, struct err *e)
{
    struct json weights = {0};
    int64_t bits = 8;
    if (json_want(group, JSON_OBJECT, e) || want_none(group, "output_activations", e) ||
        find_ct(group, &row, e) ||
        (!ct_row[row].takes_activations && want_none(group, "input_activations", e)) ||
        json_opt(group, "weights", JSON_OBJECT, &weights, e))
        return -1;
    if (json_absent(&weights))
        return 0;
    if (want_word(&weights, "type", ct_row[row].type, e) ||
        parse_block(p, &weights, "block_structure", e) ||
        json_opt_int(&weights, "num_bits", 1, 32, &bits, e))
        return -1;
    struct json m = json_member(&weights, "num_bits");
    return bits == 8 || (bits == 4 && row == 0)
               ? 0
               : json_err(&m, e, ERR_UNSUPPORTED, "%d is not supported with this format",
                          (int)bits);
}

static int parse_ct(struct packing *p, const struct json *v, struct err *e)
{
    struct json groups = {0}, group;
    int row = 0;
    if (find_ct(v, &row, e) || want_word(v, "quantization_status", "compressed", e) ||
        want_none(v, "kv_cache_scheme", e) || json_opt(v, "config_groups", JSON_OBJECT, &groups, e))
        return -1;
    if (json_absent(&groups))
        return 0;
    json_each(group, groups)
    {
        if (check_ct_group(p, &group, row, e))
            return -1;
    }
    return 0;
}

/* ---- fp8 ----------------------------------------------------------------------------------- */

static int parse_fp8(struct packing *p, const struct json *v, struct err *e)
{
    return want_word(v, "fmt", "e4m3", e) || want_none(v, "kv_cache_scheme", e) ||
                   parse_block(p, v, "weight_block_size", e)
               ? -1
               : 0;
}

/* ---- GPTQ, AWQ ----------------------------------------------------------------------------- */

static int parse_group(struct packing *p, const struct json *v, const char *key, struct err *e)
{
    struct json m = json_member(v, key);
    if (json_opt_int(v, key, -1, INT32_MAX, &p->group, e))
        return -1;
    return p->group ? 0
                    : json_err(&m, e, ERR_BAD_INPUT, "expected -1, or inputs that share a scale");
}

static int want_bits(const struct json *v, const char *key, bool takes_eight, struct err *e)
{
    struct json m = json_member(v, key);
    int64_t bits = 4;
    if (json_opt_int(v, key, 1, 32, &bits, e))
        return -1;
    if (bits == 4 || (bits == 8 && takes_eight))
        return 0;
    return json_err(&m, e, ERR_UNSUPPORTED, "%d is not supported; %s", (int)bits,
                    takes_eight ? "4 and 8 are" : "4 is");
}

static int parse_gptq(struct packing *p, const struct json *v, struct err *e)
{
    const char *kind = "gptq";
    struct json m = json_member(v, "checkpoint_format");
    p->is_zero_less = true;
    if (want_bits(v, "bits", true, e) || parse_group(p, v, "group_size", e) ||
        json_opt_bool(v, "desc_act", &p->is_ordered, e) || want_word(v, "pack_dtype", "int32", e) ||
        json_opt_str(v, "checkpoint_format", &kind, e))
        return -1;
    if (strcmp(kind, "gptq_v2") == 0)
        return p->is_zero_less = false, 0;
    return strcmp(kind, "gptq") == 0
               ? 0
               : json_err(&m, e, ERR_UNSUPPORTED, "'%.40s' is not supported; gptq and gptq_v2 are",
                          kind);
}

/* Under the names of config.json, and those of quant_config.json. */
static int parse_awq(struct packing *p, const struct json *v, struct err *e)
{
    return want_word(v, "version", "gemm", e) || want_word(v, "checkpoint_format", "gemm", e) ||
                   want_bits(v, "bits", false, e) || want_bits(v, "w_bit", false, e) ||
                   parse_group(p, v, "group_size", e) || parse_group(p, v, "q_group_size", e)
               ? -1
               : 0;
}

/* ---- MXFP4 --------------------------------------------------------------------------------- */

/* Which tensors are codes their names say, so what is not converted (modules_to_not_convert) is
 * clear without being told. */
static int parse_mxfp4(struct packing *p, const struct json *v, struct err *e)
{
    bool is_plain = false;
    (void)p;
    return json_opt_bool(v, "dequantize", &is_plain, e);
}

/* ---- bitsandbytes -------------------------------------------------------------------------- */

/* Sizes of blocks, and whether scales are nested, each matrix says itself. What was left out
 * (llm_int8_skip_modules) is in numbers. */
static int parse_bnb(struct packing *p, const struct json *v, struct err *e)
{
    bool is_eight = false, is_four = false;
    struct json m = json_member(v, "load_in_8bit"), four = json_member(v, "load_in_4bit");
    (void)p;
    if (json_opt_bool(v, "load_in_8bit", &is_eight, e) ||
        json_opt_bool(v, "load_in_4bit", &is_four, e))
        return -1;
    if (is_eight)
        return json_err(&m, e, ERR_UNSUPPORTED, "true is not supported; load_in_4bit is");
    if (!is_four)
        return json_err(json_absent(&four) ? v : &four, e, ERR_UNSUPPORTED,
                        "is not supported without load_in_4bit");
    return want_word(v, "bnb_4bit_quant_type", "nf4", e) ||
                   want_word(v, "bnb_4bit_quant_storage", "uint8", e)
               ? -1
               : 0;
}

/* ---- as a whole ---------------------------------------------------------------------------- */

/* What tools call themselves, and the file in which they said it before config.json did. */
static const struct {
    const char *name;
    enum packing_method method;
    int (*parse)(struct packing *p, const struct json *v, struct err *e);
    const char *file;
} method_row[] = {
    {"compressed-tensors", PACKING_CT, parse_ct, NULL},
    {"fp8", PACKING_FP8, parse_fp8, NULL},
    {"gptq", PACKING_GPTQ, parse_gptq, "quantize_config.json"},
    {"awq", PACKING_AWQ, parse_awq, "quant_config.json"},
    {"mxfp4", PACKING_MXFP4, parse_mxfp4, NULL},
    {"bitsandbytes", PACKING_BNB, parse_bnb, NULL},
};

enum { N_METHOD = sizeof method_row / sizeof *method_row };

static int parse_as(struct packing *p, const struct json *v, int row, struct err *e)
{
    *p = (struct packing){.method = method_row[row].method, .group = -1};
    return method_row[row].parse(p, v, e);
}

int config_packing_parse(struct packing *p, const struct json *root, struct err *e)
{
    struct json m = json_member(root, "quantization_config"), method;
    const char *name;
    if (json_absent(&m))
        return 0;
    method = json_member(&m, "quant_method");
    if (!json_is(&m, JSON_OBJECT) || json_absent(&method))
        return json_err(&m, e, ERR_UNSUPPORTED, "is not supported with this value");
    if (json_as_str(&method, &name, e))
        return -1;
    for (int i = 0; i < N_METHOD; i++)
        if (strcmp(name, method_row[i].name) == 0)
            return parse_as(p, &m, i, e);
    return json_err(
        &method, e, ERR_UNSUPPORTED,
        "'%.40s' is not supported; compressed-tensors, fp8, gptq, awq, mxfp4 and bitsandbytes are",
        name);
}

static int load_beside(struct packing *p, const char *dir, int row, struct err *e)
{
    const char *name = method_row[row].file;
    char *path = path_join(dir, name);
    struct json_doc *doc = json_read(path, name, &json_rules_config, e);
    free(path);
    if (!doc)
        return -1;
    struct json root = json_root(doc);
    int rc = json_want(&root, JSON_OBJECT, e) ||
                     want_word(&root, "quant_method", method_row[row].name, e) ||
                     parse_as(p, &root, row, e)
                 ? -1
                 : 0;
    json_free(doc);
    return rc;
}

int config_packing_load(struct packing *p, const char *dir, struct err *e)
{
    for (int i = 0; i < N_METHOD; i++)
        if (method_row[i].file && path_exists(dir, method_row[i].file))
            return load_beside(p, dir, i, e);
    return 0;
}
