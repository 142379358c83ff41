/* SPDX-License-Identifier: Apache-2.0
 *
 * Which family a config is of, and where its fields stand: at the top, or in the text_config of a
 * model that sees images too, whose text part is a family's. Pictures have no way in.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/near.h"
#include "engine/load/config_traits.h"
#include "engine/load/json.h"

static const struct {
    const char *type, *arch;
} family_name[FAMILY_COUNT] = {
#define FAMILY(name, type, arch, ...) {type, arch},
#include "engine/load/family.def"
#undef FAMILY
};

/* Models around a text model. text: its model_type where the text_config does not say it. ties:
 * that its head is the embedding where it does not say itself. called: what the text_config says of
 * such a model whose positions are threefold, by time, height and width, which are one where there
 * is no picture; its older files have all at the top. theta: of theirs, where nothing says it. */
static const struct wrapper {
    const char *type, *arch, *text;
    bool ties;
    const char *called;
    double theta;
} wrapper[] = {
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", true, NULL, 0},
    {"gemma3n", "Gemma3nForConditionalGeneration", "gemma3n_text", true, NULL, 0},
    {"gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", true, NULL, 0},
    {"llava", "LlavaForConditionalGeneration", "llama", false, NULL, 0},
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral", true, NULL, 0},
    {"qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2", false, "qwen2_vl_text", 1e6},
    {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2", false, "qwen2_5_vl_text", 1e6},
    {"qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3", false, "qwen3_vl_text", 5e5},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", false, NULL, 0},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", false, NULL, 0},
};

enum { N_WRAPPER = sizeof wrapper / sizeof wrapper[0] };

const char *config_family_name(enum config_family f)
{
    return family_name[f].type;
}

/* Names the nearest known, of a misspelt one or of a later version, and then all families by their
 * short names. */
static int err_family(const struct json *v, const char *found, bool by_arch, struct err *e)
{
    struct near near = {.word = found};
    char known[512] = "";
    size_t n = 0;
    for (int f = 0; f < FAMILY_COUNT; f++)
        near_try(&near, by_arch ? family_name[f].arch : family_name[f].type);
    for (int f = 0; f < FAMILY_COUNT && n < sizeof known; f++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s",
                              f == 0                  ? ""
                              : f == FAMILY_COUNT - 1 ? " and "
                                                      : ", ",
                              family_name[f].type);
    return json_err(v, e, ERR_UNSUPPORTED, "'%.80s' is not supported%s%s; known are %s", found,
                    near.best ? "; the nearest is " : "", near.best ? near.best : "", known);
}

static int find_name(const struct json *v, const char *name, bool by_arch, enum config_family *out,
                     struct err *e)
{
    for (int f = 0; f < FAMILY_COUNT; f++)
        if (strcmp(name, by_arch ? family_name[f].arch : family_name[f].type) == 0)
            return *out = (enum config_family)f, 0;
    return err_family(v, name, by_arch, e);
}

static int find_inner(struct config *c, const struct json *root, const struct wrapper *w,
                      struct json *text, struct err *e)
{
    const char *type = w->text;
    bool is_flat = w->called && !json_member(root, "text_config").node;
    c->is_threefold = w->called;
    c->rope.theta = w->theta;
    *text = *root;
    if (is_flat)
        return find_name(root, type, false, &c->family, e);
    if (json_get(root, "text_config", JSON_OBJECT, text, e) ||
        json_opt_str(text, "model_type", &type, e))
        return -1;
    struct json m = json_member(text, "model_type");
    c->is_wrapped = true;
    if (w->called && strcmp(type, w->called) == 0)
        type = w->text;
    return find_name(m.node ? &m : text, type, false, &c->family, e);
}

int config_outer_tie_parse(struct config *c, const struct json *root, struct err *e)
{
    bool is_tied = false;
    for (int w = 0; w < N_WRAPPER; w++)
        is_tied = is_tied || (wrapper[w].ties && (strcmp(c->architecture, wrapper[w].arch) == 0 ||
                                                  strcmp(c->architecture, wrapper[w].type) == 0));
    if (json_opt_bool(root, "tie_word_embeddings", &is_tied, e))
        return -1;
    c->is_tied = c->is_tied || is_tied;
    return 0;
}

/* A family's class that labels texts: its name but for the end. */
static bool find_classifier(struct config *c, const char *name)
{
    static const char *const end[] = {"Model", "ForCausalLM"};
    const char *at = strstr(name, "ForSequenceClassification");
    size_t n = at ? (size_t)(at - name) : 0;
    for (int f = 0; f < FAMILY_COUNT && n; f++) {
        const char *arch = family_name[f].arch;
        c->family = (enum config_family)f;
        c->classifier = config_traits_of(c)->classifier;
        for (size_t i = 0; i < sizeof end / sizeof end[0]; i++)
            if (c->classifier && strncmp(arch, name, n) == 0 && strcmp(arch + n, end[i]) == 0)
                return true;
    }
    c->classifier = CLASSIFIER_NONE;
    return false;
}

/* A decoder's class without an lm_head: it is there for vectors. */
static bool find_body(struct config *c, const char *name)
{
    for (int f = 0; f < FAMILY_COUNT; f++) {
        const char *arch = family_name[f].arch, *end = strstr(arch, "ForCausalLM");
        c->family = (enum config_family)f;
        const char *body = config_traits_of(c)->body_arch;
        size_t n = end ? (size_t)(end - arch) : 0;
        bool is_it = body ? strcmp(body, name) == 0
                          : n && strncmp(arch, name, n) == 0 && strcmp(name + n, "Model") == 0;
        if (is_it)
            return c->is_encoder = true;
    }
    return false;
}

/* By architectures[0]; by model_type where there is none. */
int config_family_find(struct config *c, const struct json *root, struct json *text, struct err *e)
{
    struct json list = json_member(root, "architectures"), m = json_child(&list);
    const char *name;
    bool by_arch = json_is(&list, JSON_ARRAY) && m.node;
    if (!by_arch)
        m = json_member(root, "model_type");
    if (!m.node)
        return json_err(root, e, ERR_BAD_INPUT, "neither architectures nor model_type is there");
    if (json_as_str(&m, &name, e))
        return -1;
    snprintf(c->architecture, sizeof c->architecture, "%s", name);
    for (int w = 0; w < N_WRAPPER; w++)
        if (strcmp(name, by_arch ? wrapper[w].arch : wrapper[w].type) == 0)
            return find_inner(c, root, &wrapper[w], text, e);
    *text = *root;
    if (by_arch && (find_classifier(c, name) || find_body(c, name)))
        return 0;
    if (find_name(&m, name, by_arch, &c->family, e))
        return -1;
    snprintf(c->architecture, sizeof c->architecture, "%s", family_name[c->family].arch);
    return 0;
}
