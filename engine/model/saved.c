/* SPDX-License-Identifier: Apache-2.0
 *
 * Names are those of the model's parameters without ".weight"; the lm_head is named even where a
 * model that ties it has no parameter of that name, and never has the prefix of the body.
 */
#include "engine/model/saved.h"

#include <stdio.h>
#include <string.h>

#include "kernels/format.h"

static const char head[] = "lm_head";

const struct param *saved_param(const struct model *m, enum saved s)
{
    if (m->cfg.is_encoder)
        return NULL;
    return s == SAVED_HEAD ? model_lm_head(m) : m->slot[SLOT_TOKEN_EMBED];
}

/* "embed_tokens" of "embed_tokens.weight". */
static size_t embed_name(const struct model *m, const char **name)
{
    *name = m->slot[SLOT_TOKEN_EMBED]->name;
    return strlen(*name) - (sizeof ".weight" - 1);
}

void saved_module(const struct model *m, enum saved s, char name[SAVED_NAME_BYTES])
{
    const char *embed;
    int n = (int)embed_name(m, &embed);
    if (s == SAVED_HEAD)
        snprintf(name, SAVED_NAME_BYTES, "%s", head);
    else
        snprintf(name, SAVED_NAME_BYTES, "%s%.*s", spec_prefix_of_class(&m->cfg), n, embed);
}

const char *saved_word(const struct model *m, enum saved s)
{
    bool is_gpt2 = strcmp(m->slot[SLOT_TOKEN_EMBED]->name, "wte.weight") == 0;
    return s == SAVED_HEAD ? head : is_gpt2 ? "wte" : "embed_tokens";
}

int saved_find(const struct model *m, const char *module)
{
    const char *embed;
    size_t n = embed_name(m, &embed);
    if (m->cfg.is_encoder)
        return -1;
    if (strcmp(module, head) == 0)
        return SAVED_HEAD;
    for (const char *const *prefix = spec_prefix(&m->cfg); *prefix; prefix++) {
        size_t k = strlen(*prefix);
        if (strncmp(module, *prefix, k) != 0)
            continue;
        if (strcmp(module + k, head) == 0)
            return SAVED_HEAD;
        if (strlen(module + k) == n && memcmp(module + k, embed, n) == 0)
            return SAVED_EMBED;
    }
    return -1;
}

bool saved_is_possible(const struct model *m)
{
    return !m->cfg.is_encoder && !m->part && m->device && device_reads_host(m->device);
}

int saved_check(const struct model *m, enum saved s, bool trains, struct err *e)
{
    const struct param *p = saved_param(m, s);
    if (!p)
        return err_set(e, ERR_UNSUPPORTED, "modules_to_save: an encoder's adapter has no %s here",
                       saved_word(m, s));
    if (m->part)
        return err_set(e, ERR_UNSUPPORTED,
                       "modules_to_save: not where ranks share the model (--tp): each would have "
                       "a part of the adapter's %s",
                       saved_word(m, s));
    if (!saved_is_possible(m))
        return err_set(e, ERR_UNSUPPORTED,
                       "modules_to_save: an adapter's own %s is not served on a GPU",
                       saved_word(m, s));
    if (k_format(p->w.type)->trained == FORMAT_CODED || (trains && format_is_frozen(p->w.type)))
        return err_set(e, ERR_UNSUPPORTED,
                       "modules_to_save: the model's %s is kept as %s, in which %s: take a model "
                       "that keeps it as bf16 or f32",
                       saved_word(m, s), k_format(p->w.type)->name,
                       trains ? "none is trained" : "an adapter's numbers cannot be kept");
    return 0;
}
