/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter against Python's jinja2: our own goldens (tests/golden/template), and where
 * TANDEM_TEST_DATA is there, the templates of real models over real conversations. Each case can
 * catch any departure from the reference in parsing, scoping, whitespace, filters, or formatting.
 * On every output the spans are checked to cover it without gaps.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/template/template.h"
#include "tests/lib/jvalue_json.h"

enum { NOON_OF_10_JULY_2025 = 1752148800 };

struct count {
    int n, bad;
};

static void check_spans(const struct template_out *out)
{
    size_t at = 0;
    for (size_t i = 0; i < out->n_span; i++) {
        assert_int_equal(out->span[i].begin, at);
        assert_true(out->span[i].end > at);
        at = out->span[i].end;
    }
    assert_int_equal(at, out->len);
}

static size_t add_vars(struct template_var *var, struct arena *a, const struct jvalue *dict)
{
    for (size_t i = 0; i < dict->d->n; i++) {
        const struct jvalue *key = &dict->d->key[i];
        var[i].name = arena_strndup(a, key->s->p, key->s->len);
        var[i].value = dict->d->val[i];
        var[i].kind = strcmp(var[i].name, "messages") == 0 ? JORIGIN_MESSAGE : JORIGIN_EXTRA;
    }
    return dict->d->n;
}

/* Renders and compares with what is expected: an output, or any error when that is NULL. */
static void check_case(struct count *c, const char *name, const struct jvalue *template,
                       const struct template_var *var, size_t n_var, const struct jvalue *want,
                       const char *want_err)
{
    struct template *t = NULL;
    struct template_out out = {0};
    struct err e = ERR_INIT;
    const struct template_limits limits = {0};
    int rc = template_compile(template->s->p, template->s->len, &t, &e) ||
             template_render_vars(t, var, n_var, &limits, NOON_OF_10_JULY_2025, &out, &e);
    bool may_be_large = want_err && strncmp(want_err, "OverflowError", 13) == 0;
    bool is_good = want->type != JT_STR ? rc != 0 && (e.code != ERR_TOO_LARGE || may_be_large)
                                        : rc == 0 && out.len == want->s->len &&
                                              memcmp(out.text, want->s->p, out.len) == 0;
    c->n++;
    if (!is_good) {
        c->bad++;
        printf("---- %s: %s\n", name, rc ? e.msg : "differs");
        if (want->type != JT_STR)
            printf("want error %s\ngot: %.*s\n", want_err ? want_err : "", (int)out.len, out.text);
        else if (rc == 0)
            printf("want: %.*s\ngot:  %.*s\n", (int)want->s->len, want->s->p, (int)out.len,
                   out.text);
    } else if (getenv("V") && rc) {
        printf("%s: want %s\n   got %s\n", name, want_err ? want_err : "", e.msg);
    }
    if (rc == 0)
        check_spans(&out);
    template_out_release(&out);
    template_unref(t);
}

/* A list of cases with data of their own, or one set of data and the cases that share it. */
static void run_units(struct arena *a, const struct jvalue *file, struct count *c)
{
    const struct jvalue *cases = file->type == JT_DICT ? jv_dict_get(file, "cases") : file;
    for (size_t i = 0; i < cases->l->n; i++) {
        const struct jvalue *u = &cases->l->at[i];
        struct template_var var[64];
        const struct jvalue *data = jv_dict_get(file->type == JT_DICT ? file : u, "data");
        assert_true(data->d->n < 64);
        check_case(c, test_jvalue_text(a, u, "name"), jv_dict_get(u, "template"), var,
                   add_vars(var, a, data), jv_dict_get(u, "output"),
                   test_jvalue_text(a, u, "error"));
    }
}

static void run_renders(struct arena *a, const struct jvalue *file, struct count *c)
{
    const struct jvalue *templates = jv_dict_get(file, "templates");
    for (size_t i = 0; i < templates->l->n; i++) {
        const struct jvalue *t = &templates->l->at[i], *renders = jv_dict_get(t, "renders");
        for (size_t k = 0; k < renders->l->n; k++) {
            const struct jvalue *x = &renders->l->at[k];
            const char *context = test_jvalue_text(a, x, "context");
            const struct jvalue *vars = jv_dict_get(jv_dict_get(file, "contexts"), context);
            struct template_var var[64];
            size_t n = add_vars(var, a, vars), ask = 0;
            while (ask < n && strcmp(var[ask].name, "add_generation_prompt") != 0)
                ask++;
            var[ask] = (struct template_var){.name = "add_generation_prompt",
                                             .value = *jv_dict_get(x, "add_generation_prompt")};
            n += ask == n;
            check_case(c,
                       arena_printf(a, "%s, %s, %d", test_jvalue_text(a, t, "name"), context,
                                    jv_dict_get(x, "add_generation_prompt")->b),
                       jv_dict_get(t, "template"), var, n, jv_dict_get(x, "output"),
                       test_jvalue_text(a, x, "error"));
        }
    }
}

static void check_file(const char *path, bool is_unit, bool must_exist)
{
    struct arena a;
    struct jvalue file;
    struct err e = ERR_INIT;
    struct count c = {0};
    arena_init(&a, (size_t)256 << 20);
    int rc = test_jvalue_read(&a, path, &file, &e);
    if (rc == 1 && !must_exist) {
        printf("%s is not there: this part is skipped\n", path);
        arena_release(&a);
        skip();
    }
    assert_good(rc, &e);
    if (is_unit)
        run_units(&a, &file, &c);
    else
        run_renders(&a, &file, &c);
    printf("%s: %d of %d as the reference\n", path, c.n - c.bad, c.n);
    assert_int_equal(c.bad, 0);
    assert_true(c.n > 0);
    arena_release(&a);
}

static void check_shared(const char *name, bool is_unit)
{
    const char *dir = getenv("TANDEM_TEST_DATA");
    char path[1024];
    snprintf(path, sizeof path, "%s/templates/%s", dir ? dir : "../shared/data", name);
    check_file(path, is_unit, false);
}

static void test_unit_cases(void **state)
{
    (void)state;
    check_shared("unit.json", true);
}

static void test_real_templates(void **state)
{
    (void)state;
    check_shared("real_templates.json", false);
}

static void test_own_units(void **state)
{
    (void)state;
    check_file("tests/golden/template/unit.json", true, true);
}

static void test_own_templates(void **state)
{
    (void)state;
    check_file("tests/golden/template/renders.json", false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unit_cases),
        cmocka_unit_test(test_real_templates),
        cmocka_unit_test(test_own_units),
        cmocka_unit_test(test_own_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
