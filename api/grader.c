/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading is by the members that a type has; one that it has not is refused, for it would be
 * thought to count.
 */
#include "api/grader.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/formula.h"
#include "api/params.h"
#include "api/similarity.h"

enum { NAME_BYTES = 96, GRADER_NAME_MAX = 64 };

enum kind { STRING_CHECK, TEXT_SIMILARITY, MULTI };
enum operation { EQ, NE, LIKE, ILIKE };

struct grader {
    enum kind kind;
    const char *name;
    const struct grade_text *input, *reference;
    enum operation operation;
    enum similarity metric;
    const struct formula *formula;
    const struct grader *sub[GRADER_SUB_MAX];
    const char *sub_name[GRADER_SUB_MAX];
    size_t n_sub;
};

static const char *const kind_name[] = {"string_check", "text_similarity", "multi"};

/* ---- reading ------------------------------------------------------------------------------- */

/* One grader being read: where it stands is the beginning of its members' names. */
struct place {
    struct api_reader *r;
    const char *where;
    const json_t *v;
    char name[NAME_BYTES];
};

static const char *name_of(struct place *p, const char *member)
{
    snprintf(p->name, sizeof p->name, "%s.%s", p->where, member);
    return p->name;
}

static const json_t *need(struct place *p, const char *member)
{
    const json_t *v = json_object_get(p->v, member);
    if (!v)
        param_bad(p->r, name_of(p, member), "is needed");
    return v;
}

/* Its words are of a list that ends in NULL. */
static int need_word(struct place *p, const char *member, const char *const *words, int *out)
{
    const json_t *v = need(p, member);
    char all[256] = "";
    if (!v)
        return -1;
    if (!json_is_string(v))
        return param_type(p->r, name_of(p, member), "a string", v);
    for (int i = 0; words[i]; i++) {
        size_t n = strlen(all);
        if (strcmp(json_string_value(v), words[i]) == 0) {
            *out = i;
            return 0;
        }
        snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", words[i]);
    }
    return param_bad(p->r, name_of(p, member), "must be one of %s", all);
}

static const struct grade_text *need_text(struct place *p, const char *member)
{
    const json_t *v = need(p, member);
    return v ? grade_text_read(p->r, name_of(p, member), v) : NULL;
}

static int only_members(struct place *p, const char *const *members)
{
    const char *key;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)p->v, key, unused)
    {
        int i = 0;
        while (members[i] && strcmp(members[i], key) != 0)
            i++;
        if (!members[i] && strcmp(key, "type") != 0 && strcmp(key, "name") != 0)
            return param_bad(p->r, name_of(p, key), "is no member of this grader");
    }
    return 0;
}

static int read_texts(struct place *p, struct grader *g)
{
    g->input = need_text(p, "input");
    g->reference = g->input ? need_text(p, "reference") : NULL;
    return g->reference ? 0 : -1;
}

static int read_string_check(struct place *p, struct grader *g)
{
    static const char *const members[] = {"input", "reference", "operation", NULL};
    static const char *const words[] = {"eq", "ne", "like", "ilike", NULL};
    int word = 0;
    if (only_members(p, members) || need_word(p, "operation", words, &word))
        return -1;
    g->operation = (enum operation)word;
    return read_texts(p, g);
}

static int read_text_similarity(struct place *p, struct grader *g)
{
    static const char *const members[] = {"input", "reference", "evaluation_metric", NULL};
    const char *words[SIMILARITY_COUNT + 1] = {NULL};
    int word = 0;
    for (int i = 0; i < SIMILARITY_COUNT; i++)
        words[i] = similarity_name((enum similarity)i);
    const char *asked = json_string_value(json_object_get(p->v, "evaluation_metric"));
    if (asked && (strcmp(asked, "meteor") == 0 || strcmp(asked, "cosine") == 0))
        return param_bad(p->r, name_of(p, "evaluation_metric"), "\"%s\" is not supported", asked);
    if (only_members(p, members) || need_word(p, "evaluation_metric", words, &word))
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

static int read_subs(struct place *p, struct grader *g)
{
    const json_t *subs = need(p, "graders");
    const char *key;
    json_t *v;
    if (!subs)
        return -1;
    if (!json_is_object(subs))
        return param_type(p->r, name_of(p, "graders"), "an object of graders by their names", subs);
    if (json_object_size(subs) < 1 || json_object_size(subs) > GRADER_SUB_MAX)
        return param_bad(p->r, name_of(p, "graders"), "must have 1 to %d graders", GRADER_SUB_MAX);
    json_object_foreach((json_t *)(uintptr_t)subs, key, v)
    {
        char where[NAME_BYTES];
        snprintf(where, sizeof where, "%s.graders.%s", p->where, key);
        if (!is_identifier(key))
            return param_bad(p->r, name_of(p, "graders"),
                             "must have names of letters, digits and _, as a formula has them");
        g->sub_name[g->n_sub] = arena_strdup(p->r->arena, key);
        g->sub[g->n_sub] = read_at(p->r, where, v, true);
        if (!g->sub[g->n_sub++])
            return -1;
    }
    return 0;
}

static int read_multi(struct place *p, struct grader *g)
{
    static const char *const members[] = {"graders", "calculate_output", NULL};
    char why[160];
    if (only_members(p, members) || read_subs(p, g))
        return -1;
    const json_t *v = need(p, "calculate_output");
    if (!v)
        return -1;
    if (!json_is_string(v))
        return param_type(p->r, name_of(p, "calculate_output"), "a string", v);
    g->formula = formula_new(p->r->arena, json_string_value(v), json_string_length(v), g->sub_name,
                             g->n_sub, why, sizeof why);
    return g->formula ? 0 : param_bad(p->r, name_of(p, "calculate_output"), "%s", why);
}

static int read_kind(struct place *p, bool is_sub, struct grader *g)
{
    static const char *const absent[] = {"label_model", "score_model", "python", "endpoint"};
    const json_t *type = need(p, "type");
    if (!type)
        return -1;
    if (!json_is_string(type))
        return param_type(p->r, name_of(p, "type"), "a string", type);
    const char *word = json_string_value(type);
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (strcmp(word, absent[i]) == 0)
            return param_bad(p->r, name_of(p, "type"),
                             "\"%s\" is not supported: string_check, text_similarity and multi are",
                             word);
    if (is_sub && strcmp(word, kind_name[MULTI]) == 0)
        return param_bad(p->r, name_of(p, "type"), "must be no multi within a multi");
    for (int i = 0; i <= MULTI; i++)
        if (strcmp(word, kind_name[i]) == 0) {
            g->kind = (enum kind)i;
            return 0;
        }
    return param_bad(p->r, name_of(p, "type"),
                     "must be one of string_check, text_similarity, multi");
}

static int read_name(struct place *p, struct grader *g)
{
    const json_t *v = need(p, "name");
    if (!v)
        return -1;
    if (!json_is_string(v))
        return param_type(p->r, name_of(p, "name"), "a string", v);
    if (json_string_length(v) < 1 || json_string_length(v) > GRADER_NAME_MAX)
        return param_bad(p->r, name_of(p, "name"), "must have 1 to %d bytes", GRADER_NAME_MAX);
    g->name = arena_strdup(p->r->arena, json_string_value(v));
    return 0;
}

static const struct grader *read_at(struct api_reader *r, const char *where, const json_t *v,
                                    bool is_sub)
{
    struct grader *g = ARENA_NEW(r->arena, struct grader);
    struct place p = {.r = r, .where = where, .v = v};
    if (!json_is_object(v)) {
        param_type(r, where, "an object", v);
        return NULL;
    }
    if (read_kind(&p, is_sub, g) || read_name(&p, g))
        return NULL;
    int rc = g->kind == STRING_CHECK      ? read_string_check(&p, g)
             : g->kind == TEXT_SIMILARITY ? read_text_similarity(&p, g)
                                          : read_multi(&p, g);
    return rc ? NULL : g;
}

const struct grader *grader_read(struct api_reader *r, const char *where, const json_t *v)
{
    return read_at(r, where, v, false);
}

/* ---- grading ------------------------------------------------------------------------------- */

static struct similarity_text lower(struct similarity_text t, struct arena *a)
{
    char *to = arena_alloc(a, t.n + 1);
    for (size_t i = 0; i < t.n; i++)
        to[i] = (char)tolower((unsigned char)t.p[i]);
    return (struct similarity_text){.p = to, .n = t.n};
}

static bool check_string(enum operation o, struct similarity_text t, struct similarity_text ref,
                         struct arena *a)
{
    bool is_same = t.n == ref.n && !memcmp(t.p, ref.p, t.n);
    if (o == EQ || o == NE)
        return is_same == (o == EQ);
    if (o == ILIKE) {
        t = lower(t, a);
        ref = lower(ref, a);
    }
    return memmem(t.p, t.n, ref.p, ref.n) != NULL;
}

struct sample {
    struct grade_sample of;
    struct arena *arena;
};

static enum grade_fault run_single(const struct grader *g, const struct sample *s, double *out,
                                   struct err *e)
{
    struct similarity_text t, ref;
    enum grade_fault fault = grade_text_fill(g->input, &s->of, s->arena, &t.p, &t.n, e);
    if (!fault)
        fault = grade_text_fill(g->reference, &s->of, s->arena, &ref.p, &ref.n, e);
    if (fault)
        return fault;
    if (g->kind == STRING_CHECK) {
        *out = check_string(g->operation, t, ref, s->arena);
        return GRADE_GOOD;
    }
    return similarity_of(g->metric, t, ref, s->arena, out, e) ? GRADE_OTHER : GRADE_GOOD;
}

/* All of them run, so that each is shown; the first fault is the grader's. */
static enum grade_fault run_multi(const struct grader *g, const struct sample *s, struct grade *out,
                                  struct err *e)
{
    double value[GRADER_SUB_MAX] = {0};
    enum grade_fault first = GRADE_GOOD;
    for (size_t i = 0; i < g->n_sub; i++) {
        struct err why = ERR_INIT;
        enum grade_fault fault = run_single(g->sub[i], s, &value[i], &why);
        if (fault && !first) {
            first = fault;
            err_set(e, why.code, "%s: %s", g->sub_name[i], why.msg);
        }
        out->sub[i].name = g->sub_name[i];
        out->sub[i].reward = fault ? 0 : value[i];
    }
    out->n_sub = g->n_sub;
    out->reward = first ? 0 : formula_value(g->formula, value);
    return first;
}

void grader_run(const struct grader *g, const json_t *item, const char *text, size_t n,
                struct arena *a, struct grade *out)
{
    struct err e = ERR_INIT;
    int values = API_JSON_VALUES_MAX;
    struct sample s = {.of = {.item = item, .text = text, .n = n}, .arena = a};
    *out = (struct grade){.name = g->name, .type = kind_name[g->kind]};
    struct err unused = ERR_INIT;
    s.of.json = api_json_inner(a, text, n, &values, &unused);
    out->fault = g->kind == MULTI ? run_multi(g, &s, out, &e) : run_single(g, &s, &out->reward, &e);
    if (!out->fault && !isfinite(out->reward)) {
        out->fault = GRADE_OTHER;
        err_set(&e, ERR_BAD_INPUT, "the grader gives no finite number");
    }
    if (!out->fault)
        return;
    out->reward = 0;
    snprintf(out->why, sizeof out->why, "%s", e.msg);
}
