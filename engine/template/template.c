/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of the interpreter: a compiled template is an arena with a tree in it, and a render is
 * a run over that tree with an arena of its own, from which the text and its spans are copied out.
 */
#include "engine/template/template.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/mem.h"
#include "engine/template/jinja_run.h"
#include "engine/template/jinja_stamp.h"
#include "engine/template/jinja_text.h"

enum { DEFAULT_OPS = 5000000 };
static const size_t COMPILE_BYTES = (size_t)64 << 20;
static const size_t DEFAULT_OUT = (size_t)16 << 20;
static const size_t DEFAULT_MEMORY = (size_t)256 << 20;

struct template
{
    atomic_uint n_ref;
    struct arena a;  /* the source and the tree */
    const char *src; /* terminated */
    struct jtree tree;
};

/* A copy of the text with every kind of line end made \n. */
static char *normal_copy(struct arena *a, const char *text, size_t *len, struct err *e)
{
    char *copy = arena_try(a, *len + 1, 1, e);
    size_t w = 0;
    for (size_t i = 0; copy && i < *len; i++) {
        if (text[i] == '\r') {
            copy[w++] = '\n';
            i += i + 1 < *len && text[i + 1] == '\n';
        } else {
            copy[w++] = text[i];
        }
    }
    *len = w;
    return copy;
}

int template_compile(const char *text, size_t len, struct template **out, struct err *e)
{
    *out = NULL;
    if (len > TEMPLATE_MAX_BYTES)
        return err_set(e, ERR_TOO_LARGE, "a chat template of %zu bytes is over the limit of %d",
                       len, TEMPLATE_MAX_BYTES);
    if (!jutf8_valid(text, len))
        return err_set(e, ERR_BAD_INPUT, "the chat template is not valid UTF-8");
    struct template *t = xcalloc(1, sizeof *t);
    atomic_init(&t->n_ref, 1);
    arena_init(&t->a, COMPILE_BYTES);
    t->src = normal_copy(&t->a, text, &len, e);
    if (!t->src || jinja_parse(&t->a, t->src, len, &t->tree, e)) {
        template_unref(t);
        return -1;
    }
    *out = t;
    return 0;
}

struct template *template_ref(struct template *t)
{
    atomic_fetch_add_explicit(&t->n_ref, 1, memory_order_relaxed);
    return t;
}

void template_unref(struct template *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->n_ref, 1, memory_order_acq_rel) != 1)
        return;
    arena_release(&t->a);
    free(t);
}

bool template_uses(const struct template *t, const char *name)
{
    for (size_t i = 0; i < t->tree.n_sym; i++)
        if (strcmp(t->tree.sym[i]->name, name) == 0)
            return true;
    return false;
}

bool template_mentions(const struct template *t, const char *word)
{
    return strstr(t->src, word) != NULL;
}

size_t template_tokens(const struct tokenizer *t, struct template_token at[TEMPLATE_TOKENS])
{
    const struct {
        const char *name;
        int32_t id;
    } all[TEMPLATE_TOKENS] = {{"bos_token", tokenizer_bos(t)},
                              {"eos_token", tokenizer_eos(t)},
                              {"unk_token", tokenizer_unk(t)},
                              {"pad_token", tokenizer_pad(t)}};
    size_t n = 0, len;
    for (size_t i = 0; i < TEMPLATE_TOKENS; i++) {
        const char *text = tokenizer_piece(t, all[i].id, &len);
        if (text)
            at[n++] = (struct template_token){.name = all[i].name, .text = text};
    }
    return n;
}

bool template_has_generation(const struct template *t)
{
    return t->tree.has_generation;
}

static int set_root(struct jrun *r, const struct template_var *var, size_t n_var)
{
    const struct jtree *t = r->tree;
    r->root = arena_try(r->a, t->n_sym + 1, sizeof *r->root, r->e);
    if (!r->root)
        return -1;
    for (size_t i = 0; i < t->n_sym; i++) {
        const struct jnative *global = jnative_find(jnative_globals, t->sym[i]->name);
        r->root[i].type = JT_MISSING;
        if (global)
            r->root[i] = (struct jvalue){.type = JT_NATIVE, .native = global};
        for (size_t k = 0; k < n_var; k++) {
            if (strcmp(var[k].name, t->sym[i]->name) != 0)
                continue;
            int bad =
                var[k].kind == JORIGIN_MESSAGE
                    ? jstamp_messages(r->a, &var[k].value, &r->root[i], r->e)
                    : jstamp(r->a, &var[k].value, jorigin_make(var[k].kind, 0), &r->root[i], r->e);
            if (bad)
                return err_wrap(r->e, "%s", var[k].name);
        }
    }
    return 0;
}

static int copy_out(const struct jsink *s, struct template_out *out, struct err *e)
{
    out->text = try_alloc(s->len + 1, 1, "the rendered conversation", e);
    out->span = try_alloc(s->n_span, sizeof *out->span, "the rendered conversation", e);
    if (!out->text || !out->span) {
        template_out_release(out);
        return -1;
    }
    if (s->len)
        memcpy(out->text, s->data, s->len);
    out->len = s->len;
    out->n_span = s->n_span;
    for (size_t i = 0, begin = 0; i < s->n_span; begin = s->span[i++].end)
        out->span[i] =
            (struct template_span){.begin = begin, .end = s->span[i].end, s->span[i].origin};
    return 0;
}

int template_render_vars(const struct template *t, const struct template_var *var, size_t n_var,
                         const struct template_limits *limits, int64_t now,
                         struct template_out *out, struct err *e)
{
    struct arena a;
    struct jsink sink;
    struct err local = ERR_INIT;
    struct jrun r = {.a = &a,
                     .e = e ? e : &local,
                     .tree = &t->tree,
                     .out = &sink,
                     .ops_max = limits->ops ? limits->ops : DEFAULT_OPS,
                     .text_max = limits->out_bytes ? limits->out_bytes : DEFAULT_OUT,
                     .now = now};
    *out = (struct template_out){0};
    arena_init(&a, limits->memory_bytes ? limits->memory_bytes : DEFAULT_MEMORY);
    jsink_init(&sink, &r);
    int bad = set_root(&r, var, n_var) || jexec(&r, t->tree.body) == JFLOW_ERROR ||
              copy_out(&sink, out, r.e);
    arena_release(&a);
    return bad ? -1 : 0;
}

/* The variables of a render, in an arena of its own. */
struct vars {
    struct template_var *at;
    size_t n, cap;
};

static int add_var(struct vars *v, const char *name, struct jvalue value, enum jorigin_kind kind,
                   struct err *e)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->at[i].name, name) == 0)
            return err_set(e, ERR_BAD_INPUT, "the template variable '%s' cannot be set twice",
                           name);
    ASSERT(v->n < v->cap);
    v->at[v->n++] = (struct template_var){.name = name, .value = value, .kind = kind};
    return 0;
}

static int add_extra(struct arena *a, struct vars *v, const struct jvalue *extra, struct err *e)
{
    if (extra->type != JT_DICT)
        return err_set(e, ERR_BAD_INPUT, "template variables must be an object");
    for (size_t i = 0; i < extra->d->n; i++) {
        const struct jvalue *key = &extra->d->key[i];
        if (key->type != JT_STR || memchr(key->s->p, 0, key->s->len))
            return err_set(e, ERR_BAD_INPUT, "the name of a template variable must be text");
        char *name = arena_try(a, key->s->len + 1, 1, e);
        if (!name)
            return -1;
        memcpy(name, key->s->p, key->s->len);
        if (add_var(v, name, extra->d->val[i], JORIGIN_EXTRA, e))
            return -1;
    }
    return 0;
}

static int collect_vars(struct arena *a, const struct template_in *in, struct vars *v,
                        struct err *e)
{
    size_t n_extra = in->extra && in->extra->type == JT_DICT ? in->extra->d->n : 0;
    v->cap = 4 + in->n_token + n_extra;
    v->at = arena_try(a, v->cap, sizeof *v->at, e);
    if (!v->at)
        return -1;
    if (add_var(v, "messages", *in->messages, JORIGIN_MESSAGE, e) ||
        add_var(v, "tools", in->tools ? *in->tools : jv_none(), JORIGIN_TOOLS, e) ||
        add_var(v, "add_generation_prompt", jv_bool(in->add_generation_prompt), JORIGIN_TEMPLATE,
                e))
        return -1;
    for (size_t i = 0; i < in->n_token; i++) {
        struct jvalue text;
        if (jv_str(a, in->token[i].text, strlen(in->token[i].text), &text, e) ||
            add_var(v, in->token[i].name, text, JORIGIN_TOKEN, e))
            return -1;
    }
    if (in->extra && add_extra(a, v, in->extra, e))
        return -1;
    bool has_documents = false;
    for (size_t i = 0; i < v->n; i++)
        has_documents |= strcmp(v->at[i].name, "documents") == 0;
    return has_documents ? 0 : add_var(v, "documents", jv_none(), JORIGIN_EXTRA, e);
}

int template_render(const struct template *t, const struct template_in *in,
                    struct template_out *out, struct err *e)
{
    struct arena a;
    struct vars v = {0};
    *out = (struct template_out){0};
    arena_init(&a, DEFAULT_MEMORY);
    int bad = collect_vars(&a, in, &v, e) ||
              template_render_vars(t, v.at, v.n, &in->limits, in->now, out, e);
    arena_release(&a);
    return bad ? -1 : 0;
}

void template_out_release(struct template_out *out)
{
    mem_free(out->text);
    mem_free(out->span);
    *out = (struct template_out){0};
}

size_t template_out_segments(const struct template_out *out, struct tok_segment *seg)
{
    size_t n = 0;
    for (size_t i = 0; i < out->n_span; i++) {
        const struct template_span *s = &out->span[i];
        bool is_trusted = jorigin_is_trusted(s->origin);
        if (n == 0 || seg[n - 1].is_trusted != is_trusted)
            seg[n++] = (struct tok_segment){.text = out->text + s->begin, .is_trusted = is_trusted};
        seg[n - 1].len += s->end - s->begin;
    }
    return n;
}
