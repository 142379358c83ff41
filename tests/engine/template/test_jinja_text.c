/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings with origins, against the plain way of doing the same: a text and an origin per byte.
 */
#include "tests/lib/test.h"

#include <string.h>

#include "engine/base/rng.h"
#include "engine/template/jinja_ops.h"

enum { MAX = 4096 };

struct plain {
    char text[MAX];
    uint32_t origin[MAX];
    size_t len;
};

static struct arena arena;
static struct err err;
static struct jrun run;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, (size_t)64 << 20);
    run = (struct jrun){
        .a = &arena, .e = &err, .ops_max = UINT64_MAX / 2, .text_max = (size_t)1 << 20};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static void assert_same(const struct jvalue *v, const struct plain *p)
{
    struct jwalk w;
    size_t at = 0;
    assert_int_equal(v->s->len, p->len);
    assert_int_equal(v->s->n_cp, jutf8_count(p->text, p->len));
    assert_memory_equal(v->s->p, p->text, p->len);
    for (jwalk_begin(&w, v); jwalk_next(&w); at += w.n)
        for (size_t i = 0; i < w.n; i++)
            assert_int_equal(w.origin, p->origin[at + i]);
    for (at = 0; at < p->len; at++)
        assert_int_equal(jtext_origin_at(v, at), p->origin[at]);
}

static void plain_add(struct plain *to, const struct plain *from, size_t begin, size_t end)
{
    memcpy(to->text + to->len, from->text + begin, end - begin);
    memcpy(to->origin + to->len, from->origin + begin, (end - begin) * sizeof *from->origin);
    to->len += end - begin;
}

static uint32_t draw(uint64_t *drawn, uint32_t n)
{
    return (uint32_t)rng_below(7, 0, (*drawn)++, n);
}

/* Faults: a span lost, shifted or joined wrongly by append in place, by views of views, or by an
 * older string that shares the memory of a grown one. */
static void test_random_concats_and_views(void **state)
{
    enum { N = 12 };
    static struct plain plain[N];
    static struct plain next;
    struct jvalue v[N];
    uint64_t g = 0;
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        plain[i].len = 3;
        memcpy(plain[i].text, (const char *[]){"abc", "\xe2\x82\xac"}[i % 2], 3);
        for (int k = 0; k < 3; k++)
            plain[i].origin[k] = i << 4;
        assert_int_equal(jtext_new(&run, plain[i].text, 3, i << 4, &v[i]), 0);
    }
    for (int step = 0; step < 20000; step++) {
        uint32_t a = draw(&g, N), b = draw(&g, N), to = draw(&g, N);
        struct jvalue made;
        next.len = 0;
        if (draw(&g, 2) && plain[a].len + plain[b].len < MAX) {
            assert_int_equal(jtext_concat(&run, &v[a], &v[b], &made), 0);
            plain_add(&next, &plain[a], 0, plain[a].len);
            plain_add(&next, &plain[b], 0, plain[b].len);
        } else {
            size_t n = v[a].s->n_cp, x = draw(&g, (uint32_t)n + 1);
            size_t y = x + draw(&g, (uint32_t)(n - x) + 1);
            size_t from = jtext_offset(&v[a], x), end = jtext_offset(&v[a], y);
            assert_int_equal(jtext_view(&run, &v[a], from, end, &made), 0);
            plain_add(&next, &plain[a], from, end);
        }
        assert_same(&made, &next);
        if (next.len == 0)
            continue;
        v[to] = made;
        plain[to] = next;
        assert_same(&v[a], &plain[a]);
        if (step % 500 == 0)
            for (uint32_t i = 0; i < N; i++)
                assert_same(&v[i], &plain[i]);
    }
}

/* Fault: a text past its ceiling that goes on growing. */
static void test_ceiling_is_kept(void **state)
{
    struct jsink s;
    struct jvalue v;
    (void)state;
    run.text_max = 100;
    jsink_init(&s, &run);
    jsink_fill(&s, 'x', 100, 0);
    assert_false(s.failed);
    jsink_add(&s, "y", 1, 0);
    jsink_add(&s, "", 0, 0);
    assert_true(s.failed);
    assert_err(jsink_take(&s, &v), &err, ERR_TOO_LARGE, "100 bytes");
}

/* Fault: a float printed with more digits than needed, or too few, or the wrong exponent form. */
static void test_floats_as_python(void **state)
{
    static const struct {
        double f;
        const char *text;
    } rows[] = {{0.1, "0.1"},
                {-0.0, "-0.0"},
                {1, "1.0"},
                {1e15, "1000000000000000.0"},
                {1e16, "1e+16"},
                {123456789012345680.0, "1.2345678901234568e+17"},
                {0.0001, "0.0001"},
                {0.00001, "1e-05"},
                {1.5e-7, "1.5e-07"},
                {5e-324, "5e-324"},
                {1.7976931348623157e308, "1.7976931348623157e+308"},
                {0.1 + 0.2, "0.30000000000000004"},
                {1e22, "1e+22"},
                {2.5, "2.5"},
                {100, "100.0"}};
    char text[JNUM_TEXT + 1];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text[jnum_float(rows[i].f, text)] = 0;
        assert_string_equal(text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_concats_and_views, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ceiling_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_floats_as_python, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
