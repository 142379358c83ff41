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

/* Models around a text model. text: its model_type where the text_config does not say it; NULL:
 * its positions are threefold, by time, height and width, which the text part needs as well. */
static const struct {
    const char *type, *arch, *text;
} wrapper[] = {
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text"},
    {"llava", "LlavaForConditionalGeneration", "llama"},
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral"},
    {"qwen2_vl", "Qwen2VLForConditionalGeneration", NULL},
    {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", NULL},
    {"qwen3_vl", "Qwen3VLForConditionalGeneration", NULL},
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

static int find_inner(struct config *c, const struct json *root, int w, struct json *text,
                      struct err *e)
{
    const char *type = wrapper[w].text;
    if (json_get(root, "text_config", JSON_OBJECT, text, e) ||
        json_opt_str(text, "model_type", &type, e))
        return -1;
    struct json m = json_member(text, "model_type");
    c->is_wrapped = true;
    return find_name(m.node ? &m : text, type, false, &c->family, e);
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
    for (int w = 0; w < N_WRAPPER; w++) {
        if (strcmp(name, by_arch ? wrapper[w].arch : wrapper[w].type) != 0)
            continue;
        if (wrapper[w].text)
            return find_inner(c, root, w, text, e);
        return json_err(&m, e, ERR_UNSUPPORTED,
                        "'%.80s' is not supported: its rotary positions are threefold (mrope)",
                        name);
    }
    *text = *root;
    if (find_name(&m, name, by_arch, &c->family, e))
        return -1;
    snprintf(c->architecture, sizeof c->architecture, "%s", family_name[c->family].arch);
    return 0;
}
