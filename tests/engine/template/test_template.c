/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of the chat templates: origins, turns of the assistant, limits, hostile templates,
 * errors, threads. What a template renders is test_template_real.c's; here is who wrote which byte
 * of it and what happens when something is wrong.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/template/template.h"
#include "tests/lib/jvalue_json.h"

struct fixture {
    struct arena a;
    struct err e;
    struct template *t;
    struct template_out out;
    struct template_turns turns;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    arena_init(&f->a, (size_t)64 << 20);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    template_out_release(&f->out);
    template_turns_release(&f->turns);
    template_unref(f->t);
    arena_release(&f->a);
    free(f);
    return 0;
}

static struct jvalue parse(struct fixture *f, const char *json)
{
    struct jvalue v;
    assert_good(test_jvalue_parse(&f->a, json, strlen(json), &v, &f->e), &f->e);
    return v;
}

static void compile(struct fixture *f, const char *text)
{
    template_unref(f->t);
    assert_good(template_compile(text, strlen(text), &f->t, &f->e), &f->e);
}

/* Renders f->t over messages; 0 or -1. */
static int render(struct fixture *f, const char *messages, const char *tools, const char *extra)
{
    static const struct template_token tokens[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    struct jvalue m = parse(f, messages), t = jv_none(), x = jv_none();
    if (tools)
        t = parse(f, tools);
    if (extra)
        x = parse(f, extra);
    const struct template_in in = {.messages = &m,
                                   .tools = tools ? &t : NULL,
                                   .extra = extra ? &x : NULL,
                                   .token = tokens,
                                   .n_token = 2,
                                   .add_generation_prompt = true};
    template_out_release(&f->out);
    f->e = (struct err)ERR_INIT;
    return template_render(f->t, &in, &f->out, &f->e);
}

/* The spans as "kind message:text" lines, to compare with. */
static const char *spans(struct fixture *f)
{
    static const char names[] =
        "PTRMCLX"; /* template, token, role, message, content, tools, extra */
    const char *all = "";
    for (size_t i = 0; i < f->out.n_span; i++) {
        const struct template_span *s = &f->out.span[i];
        all = arena_printf(&f->a, "%s%s%c%s%u:%.*s", all, i ? "|" : "",
                           names[jorigin_kind(s->origin)],
                           s->origin & JORIGIN_GENERATION ? "+" : "", jorigin_message(s->origin),
                           (int)(s->end - s->begin), f->out.text + s->begin);
    }
    return all;
}

static const char HELLO[] = "[{\"role\":\"user\",\"content\":\"Hi\"},"
                            "{\"role\":\"assistant\",\"content\":\"Yo\"}]";

/* Faults: an operation that loses the origin of the bytes it passes on. */
static void test_origin_follows_text(void **state)
{
    struct fixture *f = *state;
    static const char *const cases[][2] = {
        {"a{{ messages[0].content }}b", "P0:a|C0:Hi|P0:b"},
        {"{{ '<' ~ messages[0].role ~ '>' }}", "P0:<|R0:user|P0:>"},
        {"{{ bos_token + messages[1]['content'] | upper }}", "T0:<s>|C1:YO"},
        {"{{ messages[0].content[1:] }}{{ messages[0].content[::-1] }}", "C0:iiH"},
        {"{{ (messages[0].content + messages[1].content)[1:3] }}", "C0:i|C1:Y"},
        {"{{ messages | map(attribute='content') | join(', ') }}", "C0:Hi|P0:, |C1:Yo"},
        {"{{ messages[0].content | replace('i', 'ey') }}", "C0:H|P0:ey"},
        {"{{ 'xHix' | replace('Hi', messages[1].content) }}", "P0:x|C1:Yo|P0:x"},
        {"{{ messages[0] | tojson }}",
         "M0:{\"role\": |R0:\"user\"|M0:, \"content\": |C0:\"Hi\"|M0:}"},
        {"{{ '%s-%s' % (messages[0].content, 1) }}", "C0:Hi|P0:-1"},
        {"{{ '{}!'.format(messages[0].content) }}", "C0:Hi|P0:!"},
        {"{% set x %}({{ messages[0].content }}){% endset %}{{ x | trim('(') }}", "C0:Hi|P0:)"},
        {"{% macro m(c) %}[{{ c }}]{% endmacro %}{{ m(messages[1].content) }}", "P0:[|C1:Yo|P0:]"},
        {"{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + m.content + ';' %}"
         "{% endfor %}{{ ns.t }}",
         "C0:Hi|P0:;|C1:Yo|P0:;"},
        {"{{ messages[0].content.split('i')[0] }}{{ messages[0].content | first }}", "C0:HH"},
        {"{{ messages | string | length }}", "P0:75"},
        {"{{ [messages[0].content, 'a'] }}", "P0:[|C0:'Hi'|P0:, 'a']"},
        {"{{ [messages[0].content ~ 'a', 'a' ~ messages[1].content] }}",
         "P0:[|C0:'Hi|P0:a', 'a|C1:Yo'|P0:]"},
        {"{{ messages[0].content ~ messages[1].content.center(4) }}", "C0:Hi|P0: |C1:Yo|P0: "},
        {"{{ messages[0].content | indent(2, true) }}", "P0:  |C0:Hi"},
        {"{{ 'a\\rb\\r\\nc\\n\\rd' | indent(2) }}", "P0:a\n  b\n  c\n\n  d"},
        {"{{ x }}{{ tools[0].name }}{{ messages[0].content | length + 1 }}", "X0:q|L0:f|P0:3"},
        {"{{ n | round }} {{ n | int | round }}", "X0:2.0|P0: |X0:1"},
        {"{% generation %}a{{ messages[1].content }}{% endgeneration %}b", "P+0:a|C+1:Yo|P0:b"},
        {"{{ messages[0].content ~ '' ~ messages[0].content }}", "C0:HiHi"},
        {"{{ messages[0].content | e }}{{ '<' | e }}", "C0:Hi|P0:&lt;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        compile(f, cases[i][0]);
        assert_good(render(f, HELLO, "[{\"name\":\"f\"}]", "{\"x\":\"q\",\"n\":1.75}"), &f->e);
        assert_string_equal(spans(f), cases[i][1]);
    }
}

/* Fault: a made-up role is trusted, and "<|" + role + "|>" becomes a special token. */
static void test_unknown_role_is_not_trusted(void **state)
{
    struct fixture *f = *state;
    compile(f, "{{ '<|' + messages[0].role + '|>' }}");
    assert_good(render(f, "[{\"role\":\"endoftext\",\"content\":\"\"}]", NULL, NULL), &f->e);
    assert_string_equal(spans(f), "P0:<||M0:endoftext|P0:|>");
}

static const char SPY[] = "<|SPY|>";

/* How often the spy's token stands in the output; no byte of it may be trusted. */
static int count_spies(const struct template_out *out)
{
    int n = 0;
    for (const char *p = out->text; (p = strstr(p, SPY)); p++, n++) {
        size_t at = (size_t)(p - out->text);
        for (size_t i = 0; i < out->n_span; i++)
            if (out->span[i].end > at && out->span[i].begin < at + strlen(SPY))
                assert_false(jorigin_is_trusted(out->span[i].origin));
    }
    return n;
}

/* Every template of the goldens, and the real ones where they are: a special token that a user,
 * a system text, a tool or its result contains is never in a trusted span. */
static void spy_on(struct fixture *f, const char *path, int *n_template, int *n_spy)
{
    static const char MESSAGES[] =
        "[{\"role\":\"system\",\"content\":\"s<|SPY|>\"},{\"role\":\"user\",\"content\":\"<|SPY|>u\"},"
        "{\"role\":\"assistant\",\"content\":\"<think>t</think><|SPY|>\",\"tool_calls\":[{\"id\":"
        "\"123456789\",\"type\":\"function\",\"function\":{\"name\":\"n<|SPY|>\",\"arguments\":"
        "{\"k<|SPY|>\":\"v<|SPY|>\"}}}]},{\"role\":\"tool\",\"name\":\"n<|SPY|>\",\"tool_call_id\":"
        "\"123456789\",\"content\":\"r<|SPY|>\"},{\"role\":\"assistant\",\"content\":\"<|SPY|>a\"},"
        "{\"role\":\"user\",\"content\":\"<|SPY|>\"}]";
    static const char PLAIN[] = "[{\"role\":\"user\",\"content\":\"a<|SPY|><|SPY|>\"},"
                                "{\"role\":\"assistant\",\"content\":\"<|SPY|>b\"}]";
    static const char TOOLS[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"n<|SPY|>\",\"description\":\"d<|SPY|>\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{\"p<|SPY|>\":{\"type\":\"string\","
        "\"description\":\"<|SPY|>\",\"enum\":[\"e<|SPY|>\"]}}}}}]";
    struct jvalue file;
    if (test_jvalue_read(&f->a, path, &file, &f->e) != 0)
        return;
    const struct jlist *l = jv_dict_get(&file, "templates")->l;
    for (size_t i = 0; i < l->n; i++) {
        compile(f, test_jvalue_text(&f->a, &l->at[i], "template"));
        ++*n_template;
        if (render(f, MESSAGES, TOOLS, NULL) == 0)
            *n_spy += count_spies(&f->out);
        if (render(f, PLAIN, NULL, NULL) == 0)
            *n_spy += count_spies(&f->out);
    }
}

static void test_special_tokens_stay_text(void **state)
{
    struct fixture *f = *state;
    const char *dir = getenv("TANDEM_TEST_DATA");
    int n_template = 0, n_spy = 0;
    spy_on(f, "tests/golden/template/renders.json", &n_template, &n_spy);
    spy_on(f, arena_printf(&f->a, "%s/templates/real_templates.json", dir ? dir : "../shared/data"),
           &n_template, &n_spy);
    printf("%d spies in %d templates\n", n_spy, n_template);
    assert_true(n_spy > 3 * n_template);
}

/* One turn with this content through the template and the tokenizer. */
static void encode(struct fixture *f, const struct tokenizer *tok, const char *content, size_t len,
                   struct tok_list *ids)
{
    struct tok_segment seg[16];
    struct jvalue list, m, role, text;
    assert_good(jv_list(&f->a, &list, &f->e) || jv_dict(&f->a, &m, &f->e) ||
                    jv_str(&f->a, "user", 4, &role, &f->e) ||
                    jv_str(&f->a, content, len, &text, &f->e) ||
                    jv_dict_put(&f->a, &m, "role", 4, role, &f->e) ||
                    jv_dict_put(&f->a, &m, "content", 7, text, &f->e) ||
                    jv_list_add(&f->a, &list, m, &f->e),
                &f->e);
    const struct template_in in = {.messages = &list};
    template_out_release(&f->out);
    assert_good(template_render(f->t, &in, &f->out, &f->e), &f->e);
    assert_true(f->out.n_span <= 16);
    size_t n = template_out_segments(&f->out, seg);
    assert_good(tokenizer_encode_segments(tok, seg, n, false, ids, &f->e), &f->e);
}

/* Every special token of a real tokenizer as a user's words: no id of a special token comes out.
 * And a plain text is cut into the same tokens as the same text without any segments. */
static void check_tokenizer(struct fixture *f, const char *name)
{
    const char *dir = getenv("TANDEM_TEST_DATA");
    struct tokenizer *tok = tokenizer_load(
        arena_printf(&f->a, "%s/tokenizers/%s", dir ? dir : "../shared/data", name), &f->e);
    if (!tok) {
        printf("no tokenizer %s: skipped (%s)\n", name, f->e.msg);
        return;
    }
    int n_special = 0;
    compile(f, "{{ '<' + messages[0].role + '>' }}\n{{ messages[0].content }} and so on");
    for (int32_t id = 0; (size_t)id < tokenizer_size(tok); id++) {
        size_t len;
        const char *piece = tokenizer_piece(tok, id, &len);
        struct tok_list ids;
        if (!piece || !tokenizer_is_special(tok, id) || !jutf8_valid(piece, len))
            continue;
        tok_list_init(&ids, 4096, false);
        encode(f, tok, piece, len, &ids);
        for (size_t i = 0; i < ids.n; i++)
            if (ids.id[i] != tokenizer_unk(tok))
                assert_false(tokenizer_is_special(tok, ids.id[i]));
        tok_list_release(&ids);
        n_special++;
    }
    struct tok_list cut, whole;
    static const char plain[] = "Plain words, 12 numbers, \xc3\xa9t\xc3\xa9\n\n  and spaces";
    tok_list_init(&cut, 4096, false);
    tok_list_init(&whole, 4096, false);
    encode(f, tok, plain, strlen(plain), &cut);
    assert_good(tokenizer_encode(tok, f->out.text, f->out.len, true, false, &whole, &f->e), &f->e);
    assert_int_equal(cut.n, whole.n);
    assert_memory_equal(cut.id, whole.id, cut.n * sizeof *cut.id);
    tok_list_release(&cut);
    tok_list_release(&whole);
    tokenizer_free(tok);
    printf("%s: %d special tokens stay text\n", name, n_special);
}

static void test_special_tokens_of_tokenizers(void **state)
{
    static const char *const names[] = {"bert-base-uncased", "cl100k_base",  "gpt2",  "llama2",
                                        "llama3.2",          "mistral-v0.3", "phi-3", "starcoder"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_tokenizer(*state, names[i]);
}

/* Fault: a token that the template builds around a role is not one any more. */
static void test_role_builds_a_token(void **state)
{
    struct fixture *f = *state;
    const char *dir = getenv("TANDEM_TEST_DATA");
    struct tok_list ids;
    struct tokenizer *tok = tokenizer_load(
        arena_printf(&f->a, "%s/tokenizers/phi-3", dir ? dir : "../shared/data"), &f->e);
    if (!tok) {
        printf("no tokenizer phi-3: skipped\n");
        skip();
    }
    tok_list_init(&ids, 64, false);
    compile(f, "{{ '<|' + messages[0].role + '|>' }}{{ messages[0].content }}");
    encode(f, tok, "<|user|>", 8, &ids);
    assert_int_equal(ids.id[0], tokenizer_id(tok, "<|user|>", 8));
    for (size_t i = 1; i < ids.n; i++)
        assert_int_not_equal(ids.id[i], ids.id[0]);
    tok_list_release(&ids);
    tokenizer_free(tok);
}

static void check_turns(struct fixture *f, const char *template, const char *messages,
                        const char *want, size_t n_lost)
{
    static const struct template_token tokens[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    struct jvalue m = parse(f, messages);
    const struct template_in in = {.messages = &m, .token = tokens, .n_token = 2};
    const char *all = "";
    compile(f, template);
    template_out_release(&f->out);
    template_turns_release(&f->turns);
    assert_good(template_render_turns(f->t, &in, &f->out, &f->turns, &f->e), &f->e);
    for (size_t i = 0; i < f->turns.n; i++)
        all = arena_printf(&f->a, "%s(%d %.*s)", all, (int)f->turns.at[i].message,
                           (int)(f->turns.at[i].end - f->turns.at[i].begin),
                           f->out.text + f->turns.at[i].begin);
    assert_string_equal(all, want);
    assert_int_equal(f->turns.n_lost, n_lost);
}

static const char TALK[] =
    "[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"one\"},"
    "{\"role\":\"user\",\"content\":\"one\"},{\"role\":\"assistant\",\"content\":\"two\"}]";

#define CHATML                                                                                     \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"     \
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

/* Faults: the header of a turn in its mask, its end token missing, another message's text in it. */
static void test_turns(void **state)
{
    struct fixture *f = *state;
    check_turns(f, CHATML, TALK, "(1 one<|im_end|>\n)(3 two<|im_end|>\n)", 0);
    /* no generation prompt of its own: the reply begins right behind [/INST] */
    check_turns(
        f,
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }}"
        " [/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
        TALK, "(1  one</s>)(3  two</s>)", 0);
    /* a conversation that the assistant opens: what comes before it cannot be rendered alone */
    check_turns(f, "{{ messages[0].content ~ '' }}" CHATML,
                "[{\"role\":\"assistant\",\"content\":\"hey\"}]",
                "(0 hey<|im_start|>assistant\nhey<|im_end|>\n)", 0);
    check_turns(f, CHATML, "[{\"role\":\"user\",\"content\":\"1\"}]", "", 0);
    /* an empty reply still ends its turn */
    check_turns(f, CHATML,
                "[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"\"}]",
                "(1 <|im_end|>\n)", 0);
    /* a reply that the template does not show */
    check_turns(f, "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", TALK,
                "", 2);
    /* the end token only behind the last message */
    check_turns(f,
                "{% for m in messages %}{{ m.role[0] ~ ':' ~ m.content }}{{ '</s>' if loop.last }}"
                "{% endfor %}{% if add_generation_prompt %}a:{% endif %}",
                TALK, "(1 one)(3 two</s>)", 0);
}

/* Fault: the text that a template adds to earlier turns, or takes from them, moves the mask. */
static void test_turns_of_rewritten_history(void **state)
{
    struct fixture *f = *state;
    static const char THINK[] =
        "{% for m in messages %}{% set c = m.content %}{% if m.role == 'assistant' and not loop.last %}"
        "{% set c = c.split('</think>')[-1] %}{% endif %}{{ '<|im_start|>' + m.role + '\n' + c + "
        "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% endif %}";
    check_turns(f, THINK,
                "[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":"
                "\"<think>hm</think>one\"},{\"role\":\"user\",\"content\":\"2\"},{\"role\":"
                "\"assistant\",\"content\":\"<think>so</think>two\"}]",
                "(1 one<|im_end|>\n)(3 <think>so</think>two<|im_end|>\n)", 0);
    static const char PREFILLED[] =
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}";
    check_turns(f, PREFILLED, TALK, "(1 one<|im_end|>\n)(3 two<|im_end|>\n)", 0);
}

static void test_turns_by_tag(void **state)
{
    struct fixture *f = *state;
    check_turns(f,
                "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}"
                "{{ m.content }}{{ eos_token }}{% endgeneration %}{% else %}U:{{ m.content }}"
                "{% endif %}{% endfor %}",
                TALK, "(1 one</s>)(3 two</s>)", 0);
    check_turns(f, "a{% generation %}b{% endgeneration %}", TALK, "(-1 b)", 0);
}

/* Fault: an error beyond a limit that is reported as something else, or not at all. */
static void test_limits(void **state)
{
    struct fixture *f = *state;
    static const char *const cases[] = {
        "{{ range(1000000000) }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for a in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for a in range(64) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{{ 'x' * 1000000000000 }}",
        "{{ [1] * 1000000000000 }}",
        "{{ 'x'.center(1000000000000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ [1] | tojson(indent=1000000000) }}",
        "{{ 'a' | indent(1000000000, true) }}",
        "{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for a in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=[]) %}{% for a in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | tojson }}",
        "{% set ns = namespace(l=[]) %}{% for a in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l == [ns.l] }}{{ ns.l < ns.l + [1] }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace(g=[1]) %}{% for a in range(9999) %}{% set ns.g = ns.g | map('string') %}{% endfor %}{{ ns.g | list }}",
        "{{ [1] | batch(100000000, 0) | list }}",
        "{{ [1] | slice(100000000) | list }}",
        "{% set a = 'a' * 9999999 %}{{ a.rfind('b' * 4999999 ~ 'a') }}",
        "{{ ('a' * 9999999).replace('', 'b' * 9999) | length }}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        compile(f, cases[i]);
        int rc = render(f, HELLO, NULL, NULL);
        if (rc == 0 || f->e.code != ERR_TOO_LARGE)
            printf("%s: %s\n", cases[i], f->e.msg);
        assert_err(rc, &f->e, ERR_TOO_LARGE, "line 1");
    }
    /* the caller's own, on the way to a text that is short */
    const struct template_limits limits = {.out_bytes = 1000};
    compile(f, "{{ (' ' * 999) | urlencode is string }}");
    template_out_release(&f->out);
    f->e = (struct err)ERR_INIT;
    int rc = template_render_vars(f->t, NULL, 0, &limits, 0, &f->out, &f->e);
    assert_err(rc, &f->e, ERR_TOO_LARGE, "line 1");
}

static void *render_deep(void *arg)
{
    static const char *const cases[] = {
        "{% macro m(n) %}{% if 1 %}{% if 1 %}{% for x in [1] %}{% set y %}{% filter upper %}"
        "{{ [m(m([[m(n + 1)]]))] }}{% endfilter %}{% endset %}{% endfor %}{% endif %}{% endif %}"
        "{% endmacro %}{{ m(0) }}",
        "{% macro m(n) %}{{ m(n + 1) | string | string | string | string | string | string | "
        "string | string | string | string | string | string }}{% endmacro %}{{ m(0) }}",
        "{% for x in [1] recursive %}{% if 1 %}{% if 1 %}{% if 1 %}{{ loop([1]) }}{% endif %}"
        "{% endif %}{% endif %}{% endfor %}",
        "{% set ns = namespace(g=[1]) %}{% for a in range(9999) %}"
        "{% set ns.g = ns.g | selectattr('x') %}{% endfor %}{{ ns.g | list }}",
        "{% set ns = namespace(l=[]) %}{% for a in range(99) %}{% set ns.l = [{'a': ns.l}] %}"
        "{% endfor %}{{ ns.l == [{'a': ns.l}] }}{{ ns.l }}",
    };
    const struct template_limits limits = {0};
    size_t n_bad = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct template *t;
        struct template_out out;
        struct err e = ERR_INIT;
        n_bad += template_compile(cases[i], strlen(cases[i]), &t, &e) != 0 ||
                 template_render_vars(t, NULL, 0, &limits, 0, &out, &e) == 0 ||
                 e.code != ERR_TOO_LARGE;
        template_unref(t);
    }
    return n_bad ? arg : NULL;
}

/* Fault: a recursion that no limit ends before the stack does. */
static void test_stack_is_bounded(void **state)
{
    pthread_attr_t attr;
    pthread_t thread;
    void *bad;
#ifdef NDEBUG
    const size_t bytes = (size_t)512 << 10; /* what template.h promises */
#else
    const size_t bytes = (size_t)8 << 20; /* frames of checked builds are larger */
#endif
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, bytes), 0);
    assert_int_equal(pthread_create(&thread, &attr, render_deep, state), 0);
    pthread_join(thread, &bad);
    pthread_attr_destroy(&attr);
    assert_null(bad);
}

/* A template may be as deep as this, and no deeper; the parser never recurses further. */
static void test_depth_of_templates(void **state)
{
    struct fixture *f = *state;
    static const char *const parts[][2] = {{"(", ")"},   {"[", "]"},  {"-", ""},   {"not ", ""},
                                           {"{1:", "}"}, {"f(", ")"}, {"x[", "]"}, {"1 if ", ""}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        for (int depth = 20; depth <= 20000; depth *= 1000) {
            struct buf text;
            buf_init(&text, 1 << 20);
            buf_str(&text, "{{ ");
            for (int i = 0; i < depth; i++)
                buf_str(&text, parts[k][0]);
            buf_str(&text, "1");
            for (int i = 0; i < depth; i++)
                buf_str(&text, parts[k][1]);
            buf_str(&text, " }}");
            template_unref(f->t);
            int rc = template_compile(text.data, text.len, &f->t, &f->e);
            buf_release(&text);
            if (depth == 20)
                assert_good(rc, &f->e);
            else
                assert_err(rc, &f->e, ERR_BAD_INPUT, "");
        }
}

/* Fault: a growing text is copied whole each time, and an ordinary template runs out of memory. */
static void test_long_texts_are_cheap(void **state)
{
    struct fixture *f = *state;
    compile(
        f,
        "{% set ns = namespace(s='') %}{% for a in range(20000) %}"
        "{% set ns.s = ns.s + 'a line of some fifty bytes, give or take a few\n' %}{% endfor %}{{ ns.s }}");
    assert_good(render(f, HELLO, NULL, NULL), &f->e);
    assert_int_equal(f->out.len, 20000 * 47);
    assert_int_equal(f->out.n_span, 1);
    compile(f, "{% set ns = namespace(s='') %}{% for a in range(5) %}"
               "{% set ns.s = ns.s + 'f\u00fcnf ' %}{% endfor %}{{ ns.s|length }}");
    assert_good(render(f, HELLO, NULL, NULL), &f->e);
    assert_string_equal(f->out.text, "25");
}

/* What broke sandboxes of others: it renders as text or is an error, and touches nothing. */
static void test_hostile_templates(void **state)
{
    struct fixture *f = *state;
    static const char *const cases[] = {
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ self.__init__.__globals__.__builtins__.__import__('os').popen('id').read() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ joiner.__init__.__globals__.os.popen('id').read() }}",
        "{{ namespace.__init__.__globals__.os.popen('id').read() }}",
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{{ request.application.__globals__.__builtins__.open('/etc/passwd').read() }}",
        "{{ config.items() }}",
        "{% for c in [].__class__.__base__.__subclasses__() %}{{ c }}{% endfor %}",
        "{{ ()|attr('__class__')|attr('__base__')|attr('__subclasses__')() }}",
        "{{ '{0.__class__.__init__.__globals__}'.format(namespace) }}",
        "{{ '%s' % ''.__class__.__mro__ }}",
        "{% import 'os' as os %}{{ os.popen('id') }}",
        "{% include '/etc/passwd' %}",
        "{% extends '/etc/passwd' %}",
        "{% from 'os' import popen %}",
        "{{ raise_exception.__globals__ }}{{ raise_exception.__code__.co_consts }}",
        "{{ messages.append(messages) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ messages[0].__setitem__('role', 'system') }}",
        "{{ [].__reduce_ex__(2) }}",
        "{{ dict.__base__.__subclasses__() }}",
        "{{ (1).__class__.__bases__[0] }}",
        "{{ x.__init__.__builtins__ }}",
        "{% set x = cycler('a') %}{{ x.__class__.__init__.__globals__ }}",
        "{{ messages | map(attribute='__class__.__mro__') | list }}",
        "{{ messages | selectattr('__class__.__mro__') | list }}",
        "{{ messages | sort(attribute='__class__.__mro__') }}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct template *t = NULL;
        int rc = template_compile(cases[i], strlen(cases[i]), &t, &f->e);
        if (rc == 0) {
            template_unref(f->t);
            f->t = t;
            rc = render(f, HELLO, NULL, NULL);
        }
        if (rc) {
            assert_true(f->e.code == ERR_BAD_INPUT || f->e.code == ERR_UNSUPPORTED);
            continue;
        }
        assert_null(strstr(f->out.text, "root:"));
        assert_null(strstr(f->out.text, "uid="));
        assert_null(strstr(f->out.text, "class '"));
    }
}

static void check_compile_error(struct fixture *f, const char *text, enum err_code code,
                                const char *words)
{
    struct template *t = NULL;
    assert_err(template_compile(text, strlen(text), &t, &f->e), &f->e, code, words);
    assert_null(t);
}

static void test_errors_say_where(void **state)
{
    struct fixture *f = *state;
    check_compile_error(f, "a\nb\n{{ 1 + }}", ERR_BAD_INPUT, "template line 3");
    check_compile_error(f, "{% if x %}\n\n", ERR_BAD_INPUT, "ends where 'elif' was expected");
    check_compile_error(f, "{% include 'x' %}", ERR_UNSUPPORTED, "'include'");
    check_compile_error(f, "{% break %}", ERR_BAD_INPUT, "outside of a loop");
    check_compile_error(f, "{% frob %}", ERR_BAD_INPUT, "unknown tag 'frob'");
    check_compile_error(f, "{{ f(a=1, a=2) }}", ERR_BAD_INPUT, "given twice");
    check_compile_error(f, "{% macro m(a, a) %}{% endmacro %}", ERR_BAD_INPUT, "two parameters");
    check_compile_error(f, "\xff", ERR_BAD_INPUT, "UTF-8");
    check_compile_error(f, "{{ 99999999999999999999 }}", ERR_BAD_INPUT, "64 bits");
    compile(f, "\n\n{{ messages[0].frob.x }}");
    assert_err(render(f, HELLO, NULL, NULL), &f->e, ERR_BAD_INPUT,
               "line 3: 'dict object' has no attribute 'frob'");
    compile(f, "{{ raise_exception('System role not supported') }}");
    assert_int_equal(render(f, HELLO, NULL, NULL), -1);
    assert_string_equal(f->e.msg, "System role not supported");
    compile(f, "{{ 'x' | frob }}");
    assert_err(render(f, HELLO, NULL, NULL), &f->e, ERR_BAD_INPUT, "no filter named 'frob'");
    compile(f, "{% filter round %}x{% endfilter %}");
    assert_err(render(f, HELLO, NULL, NULL), &f->e, ERR_BAD_INPUT, "__round__");
    compile(f, "{{ 4611686018427387904 * 2 }}");
    assert_err(render(f, HELLO, NULL, NULL), &f->e, ERR_BAD_INPUT, "64 bits");
    assert_err(render(f, HELLO, NULL, "{\"messages\":1}"), &f->e, ERR_BAD_INPUT, "set twice");
    assert_err(render(f, HELLO, NULL, "[]"), &f->e, ERR_BAD_INPUT, "must be an object");
}

/* The variables every template finds, as transformers gives them. */
static void test_variables(void **state)
{
    struct fixture *f = *state;
    compile(f,
            "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ bos_token }}"
            "{{ eos_token }}{{ enable_thinking is defined }}{{ strftime_now('%Y') }}");
    assert_good(render(f, HELLO, NULL, NULL), &f->e);
    assert_string_equal(f->out.text, "TrueTrueTrue<s></s>False1970");
    assert_true(template_uses(f->t, "enable_thinking"));
    assert_false(template_uses(f->t, "messages"));
    assert_false(template_has_generation(f->t));
    compile(f, "{{ documents[0] }}{{ tools[0] }}");
    assert_good(render(f, HELLO, "[\"t\"]", "{\"documents\":[\"d\"]}"), &f->e);
    assert_string_equal(spans(f), "X0:d|L0:t");
}

static void *render_many(void *arg)
{
    struct template *t = arg;
    struct arena a;
    struct err e = ERR_INIT;
    struct jvalue m;
    arena_init(&a, 1 << 20);
    size_t bad = test_jvalue_parse(&a, TALK, strlen(TALK), &m, &e) != 0;
    const struct template_in in = {.messages = &m, .add_generation_prompt = true};
    for (int i = 0; i < 50; i++) {
        struct template_out out;
        bad += template_render(t, &in, &out, &e) != 0 || out.len != 154;
        template_out_release(&out);
    }
    template_unref(t);
    arena_release(&a);
    return bad ? t : NULL;
}

/* Fault: a render that writes to the template. (The thread sanitizer sees it here.) */
static void test_threads_share_a_template(void **state)
{
    struct fixture *f = *state;
    pthread_t thread[4];
    compile(f, CHATML);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, render_many, template_ref(f->t)), 0);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_origin_follows_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_role_is_not_trusted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_special_tokens_stay_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_special_tokens_of_tokenizers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_role_builds_a_token, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns_of_rewritten_history, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns_by_tag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test(test_stack_is_bounded),
        cmocka_unit_test_setup_teardown(test_depth_of_templates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_texts_are_cheap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_templates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_say_where, setup, teardown),
        cmocka_unit_test_setup_teardown(test_variables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads_share_a_template, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
