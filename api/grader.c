/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading is by the members that a type has; one that it has not is refused, for it would be
 * thought to count.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/grader_own.h"
#include "api/params.h"

/* ---- members ------------------------------------------------------------------------------- */

const char *grader_member(struct grader_place_at *p, const char *member)
{
    snprintf(p->name, sizeof p->name, "%s.%s", p->where, member);
    return p->name;
}

const json_t *grader_need(struct grader_place_at *p, const char *member)
{
    const json_t *v = json_object_get(p->v, member);
    if (!v)
        param_bad(p->r, grader_member(p, member), "is needed");
    return v;
}

const char *grader_word(struct grader_place_at *p, const char *member, const json_t *v, size_t max)
{
    const char *name = grader_member(p, member);
    if (!json_is_string(v)) {
        param_type(p->r, name, "a string", v);
        return NULL;
    }
    size_t n = json_string_length(v);
    if (n == 0 || n > max || strlen(json_string_value(v)) != n) {
        param_bad(p->r, name, "must have 1 to %zu bytes, none of them NUL", max);
        return NULL;
    }
    return arena_strdup(p->r->arena, json_string_value(v));
}

/* Its words are of a list that ends in NULL. */
static int need_word(struct grader_place_at *p, const char *member, const char *const *words,
                     int *out)
{
    const json_t *v = grader_need(p, member);
    char all[256] = "";
    if (!v)
        return -1;
    if (!json_is_string(v))
        return param_type(p->r, grader_member(p, member), "a string", v);
    for (int i = 0; words[i]; i++) {
        size_t n = strlen(all);
        if (strcmp(json_string_value(v), words[i]) == 0) {
            *out = i;
            return 0;
        }
        snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", words[i]);
    }
    return param_bad(p->r, grader_member(p, member), "must be one of %s", all);
}

static const struct grade_text *need_text(struct grader_place_at *p, const char *member)
{
    const json_t *v = grader_need(p, member);
    return v ? grade_text_read(p->r, grader_member(p, member), v) : NULL;
}

int grader_only(struct grader_place_at *p, const char *const *members)
{
    const char *key;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)p->v, key, unused)
    {
        int i = 0;
        while (members[i] && strcmp(members[i], key) != 0)
            i++;
        if (!members[i] && strcmp(key, "type") != 0 && strcmp(key, "name") != 0)
            return param_bad(p->r, grader_member(p, key), "is no member of this grader");
    }
    return 0;
}

static int read_texts(struct grader_place_at *p, struct grader *g)
{
    g->input = need_text(p, "input");
    g->reference = g->input ? need_text(p, "reference") : NULL;
    return g->reference ? 0 : -1;
}

static int read_string_check(struct grader_place_at *p, struct grader *g)
{
    static const char *const members[] = {"input", "reference", "operation", NULL};
    static const char *const words[] = {"eq", "ne", "like", "ilike", NULL};
    int word = 0;
    if (grader_only(p, members) || need_word(p, "operation", words, &word))
        return -1;
    g->operation = word;
    return read_texts(p, g);
}

static int read_text_similarity(struct grader_place_at *p, struct grader *g)
{
    static const char *const members[] = {"input", "reference", "evaluation_metric", NULL};
    const char *words[SIMILARITY_COUNT + 1] = {NULL};
    int word = 0;
    for (int i = 0; i < SIMILARITY_COUNT; i++)
        words[i] = similarity_name((enum similarity)i);
    const char *asked = json_string_value(json_object_get(p->v, "evaluation_metric"));
    if (asked && (strcmp(asked, "meteor") == 0 || strcmp(asked, "cosine") == 0))
        return param_bad(p->r, grader_member(p, "evaluation_metric"), "\"%s\" is not supported",
                         asked);
    if (grader_only(p, members) || need_word(p, "evaluation_metric", words, &word))
        return -1;
    g->metric = (enum similarity)word;
    return read_texts(p, g);
}

static const struct grader *read_at(struct api_reader *r, const char *where, const json_t *v,
                                    bool is_sub);

static bool is_identifier(const char *s)
{
    size_t n = 0;
    for (; s[n]; n++)
        if (!isalpha((unsigned char)s[n]) && s[n] != '_' &&
            (n == 0 || !isdigit((unsigned char)s[n])))
            return false;
    return n > 0 && n <= GRADER_NAME_MAX;
}

static int read_subs(struct grader_place_at *p, struct grader *g)
{
    const json_t *subs = grader_need(p, "graders");
    const char *key;
    json_t *v;
    if (!subs)
        return -1;
    if (!json_is_object(subs))
        return param_type(p->r, grader_member(p, "graders"), "an object of graders by their names",
                          subs);
    if (json_object_size(subs) < 1 || json_object_size(subs) > GRADER_SUB_MAX)
        return param_bad(p->r, grader_member(p, "graders"), "must have 1 to %d graders",
                         GRADER_SUB_MAX);
    json_object_foreach((json_t *)(uintptr_t)subs, key, v)
    {
        char where[GRADER_PLACE_BYTES];
        snprintf(where, sizeof where, "%s.graders.%s", p->where, key);
        if (!is_identifier(key))
            return param_bad(p->r, grader_member(p, "graders"),
                             "must have names of letters, digits and _, as a formula has them");
        g->sub_name[g->n_sub] = arena_strdup(p->r->arena, key);
        g->sub[g->n_sub] = read_at(p->r, where, v, true);
        if (!g->sub[g->n_sub++])
            return -1;
    }
    return 0;
}

static int read_multi(struct grader_place_at *p, struct grader *g)
{
    static const char *const members[] = {"graders", "calculate_output", NULL};
    char why[160];
    if (grader_only(p, members) || read_subs(p, g))
        return -1;
    const json_t *v = grader_need(p, "calculate_output");
    if (!v)
        return -1;
    if (!json_is_string(v))
        return param_type(p->r, grader_member(p, "calculate_output"), "a string", v);
    g->formula = formula_new(p->r->arena, json_string_value(v), json_string_length(v), g->sub_name,
                             g->n_sub, why, sizeof why);
    return g->formula ? 0 : param_bad(p->r, grader_member(p, "calculate_output"), "%s", why);
}

static const struct {
    const char *name;
    int (*read)(struct grader_place_at *p, struct grader *g);
} kinds[] = {[GRADER_STRING_CHECK] = {"string_check", read_string_check},
             [GRADER_TEXT_SIMILARITY] = {"text_similarity", read_text_similarity},
             [GRADER_SCORE_MODEL] = {"score_model", grader_read_judge},
             [GRADER_LABEL_MODEL] = {"label_model", grader_read_judge},
             [GRADER_ENDPOINT] = {"endpoint", grader_read_endpoint},
             [GRADER_PROGRAM] = {"python", grader_read_program},
             [GRADER_MULTI] = {"multi", read_multi}};

static int read_kind(struct grader_place_at *p, bool is_sub, struct grader *g)
{
    const char *words[GRADER_MULTI + 2] = {NULL};
    int word = 0;
    for (int i = 0; i <= GRADER_MULTI; i++)
        words[i] = kinds[i].name;
    if (need_word(p, "type", words, &word))
        return -1;
    if (is_sub && word == GRADER_MULTI)
        return param_bad(p->r, grader_member(p, "type"), "must be no multi within a multi");
    g->kind = (enum grader_kind)word;
    return 0;
}

static int read_name(struct grader_place_at *p, struct grader *g)
{
    const json_t *v = grader_need(p, "name");
    if (!v)
        return -1;
    if (!json_is_string(v))
        return param_type(p->r, grader_member(p, "name"), "a string", v);
    if (json_string_length(v) < 1 || json_string_length(v) > GRADER_NAME_MAX)
        return param_bad(p->r, grader_member(p, "name"), "must have 1 to %d bytes",
                         GRADER_NAME_MAX);
    g->name = arena_strdup(p->r->arena, json_string_value(v));
    return 0;
}

static const struct grader *read_at(struct api_reader *r, const char *where, const json_t *v,
                                    bool is_sub)
{
    struct grader *g = ARENA_NEW(r->arena, struct grader);
    struct grader_place_at p = {.r = r, .where = where, .v = v};
    if (!json_is_object(v)) {
        param_type(r, where, "an object", v);
        return NULL;
    }
    if (read_kind(&p, is_sub, g) || read_name(&p, g))
        return NULL;
    g->where = arena_strdup(r->arena, where);
    return kinds[g->kind].read(&p, g) ? NULL : g;
}

const char *grader_kind_name(enum grader_kind kind)
{
    return kinds[kind].name;
}

const struct grader *grader_read(struct api_reader *r, const char *where, const json_t *v)
{
    return read_at(r, where, v, false);
}
