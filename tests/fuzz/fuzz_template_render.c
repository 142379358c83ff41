/* SPDX-License-Identifier: Apache-2.0
 *
 * A template and a text, parted by the first NUL: the text becomes the content of messages, an
 * argument of a tool call and a variable. Whatever the template does, the render ends within its
 * limits, its text is UTF-8, and its spans cover it without gaps; the loss mask lies inside.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "engine/template/template.h"

struct builder {
    struct arena a;
    struct err e;
};

static struct jvalue text(struct builder *b, const char *s, size_t n)
{
    struct jvalue v = jv_none();
    if (jv_str(&b->a, s, n, &v, &b->e))
        v = jv_int((int64_t)n);
    return v;
}

static void put(struct builder *b, struct jvalue *dict, const char *key, struct jvalue v)
{
    ASSERT(jv_dict_put(&b->a, dict, key, strlen(key), v, &b->e) == 0);
}

static void add_message(struct builder *b, struct jvalue *list, const char *role, struct jvalue v)
{
    struct jvalue m;
    ASSERT(jv_dict(&b->a, &m, &b->e) == 0);
    put(b, &m, "role", text(b, role, strlen(role)));
    put(b, &m, "content", v);
    ASSERT(jv_list_add(&b->a, list, m, &b->e) == 0);
}

/* A conversation with a tool call in its middle, and the text wherever text may stand. */
static struct jvalue conversation(struct builder *b, struct jvalue content)
{
    struct jvalue list, calls, call, parts;
    ASSERT(jv_list(&b->a, &list, &b->e) == 0 && jv_list(&b->a, &calls, &b->e) == 0 &&
           jv_list(&b->a, &parts, &b->e) == 0 && jv_dict(&b->a, &call, &b->e) == 0);
    put(b, &call, "name", content);
    put(b, &call, "n", jv_float(0.1));
    ASSERT(jv_list_add(&b->a, &calls, call, &b->e) == 0);
    ASSERT(jv_list_add(&b->a, &parts, call, &b->e) == 0);
    add_message(b, &list, "system", text(b, "Be brief.", 9));
    add_message(b, &list, "user", content);
    add_message(b, &list, "assistant", parts);
    put(b, &list.l->at[2], "tool_calls", calls);
    add_message(b, &list, "user", content);
    add_message(b, &list, "assistant", content);
    return list;
}

static void check(const struct template_out *out)
{
    size_t at = 0;
    for (size_t i = 0; i < out->n_span; i++) {
        ASSERT(out->span[i].begin == at && out->span[i].end > at);
        at = out->span[i].end;
    }
    ASSERT(at == out->len && jutf8_valid(out->text, out->len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct builder b = {.e = ERR_INIT};
    struct template *t = NULL;
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size;
    if (template_compile((const char *)data, n, &t, &b.e))
        return 0;
    arena_init(&b.a, (size_t)64 << 20);
    struct jvalue content = nul ? text(&b, (const char *)nul + 1, size - n - 1) : text(&b, "x", 1);
    struct jvalue messages = conversation(&b, content), extra;
    ASSERT(jv_dict(&b.a, &extra, &b.e) == 0);
    put(&b, &extra, "x", content);
    const struct template_token token = {.name = "eos_token", .text = "</s>"};
    const struct template_in in = {
        .messages = &messages,
        .extra = &extra,
        .token = &token,
        .n_token = 1,
        .limits = {.ops = 200000, .out_bytes = 1 << 18, .memory_bytes = 1 << 24}};
    struct template_out out;
    struct template_turns turns;
    if (template_render_turns(t, &in, &out, &turns, &b.e) == 0) {
        check(&out);
        for (size_t i = 0; i < turns.n; i++)
            ASSERT(turns.at[i].begin < turns.at[i].end && turns.at[i].end <= out.len);
        template_out_release(&out);
        template_turns_release(&turns);
    }
    arena_release(&b.a);
    template_unref(t);
    return 0;
}
