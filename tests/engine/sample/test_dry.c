/* SPDX-License-Identifier: Apache-2.0
 *
 * What tokens lose to DRY, against tests/golden/make_serial.py, which compares texts token by
 * token. Faults they can catch: a length of the wrong place, one that goes past a breaker, past the
 * window or past the text's begin; a token that loses twice; a breaker that loses; what is known of
 * a text that is not so when it has grown.
 */
#include "engine/sample/dry.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/json.h"
#include "tests/lib/test.h"

enum { VOCAB = 40, ROOM = 1024 };

struct given {
    struct sample_params p;
    int32_t text[ROOM], breaker[ROOM], space[DRY_KNOWN + ROOM];
    int64_t n;
    uint32_t breaks[2];
    float want[VOCAB];
};

static double num(const struct json *v)
{
    struct err e = ERR_INIT;
    double x;
    assert_good(json_as_num(v, &x, &e), &e);
    return x;
}

static double member(const struct json *c, const char *name)
{
    struct json v = json_member(c, name);
    return num(&v);
}

static void read_lists(const struct json *c, struct given *g)
{
    struct json text = json_member(c, "text"), breaks = json_member(c, "breaks"), v, one;
    struct json breakers = json_member(c, "breakers"), lost = json_member(c, "lost");
    json_each(v, text) g->text[g->n++] = (int32_t)num(&v);
    json_each(v, breaks) g->breaks[(int)num(&v) / 32] |= UINT32_C(1) << (int)num(&v) % 32;
    json_each(v, breakers)
    {
        g->breaker[g->p.n_dry_breaker++] = (int32_t)json_count(&v);
        json_each(one, v) g->breaker[g->p.n_dry_breaker++] = (int32_t)num(&one);
    }
    json_each(v, lost)
    {
        struct json id = json_child(&v), by = json_next(&id);
        float *to = &g->want[(int)num(&id)];
        *to = (float)fmax((double)*to - num(&by), -(double)FLT_MAX);
    }
}

/* The row behind n tokens, from rising logits. */
static void edit(struct given *g, int64_t n, float row[VOCAB])
{
    int32_t longest[VOCAB];
    for (int i = 0; i < VOCAB; i++) {
        row[i] = (float)i;
        longest[i] = 7 * i; /* of another row */
    }
    dry_edit(&g->p, g->text, n, g->space, longest, row);
}

static void compare(const struct given *g, const float row[VOCAB], int at)
{
    for (int i = 0; i < VOCAB; i++)
        if (!(fabsf(row[i] - g->want[i]) <= 1e-5f * fmaxf(fabsf(g->want[i]), 1)))
            fail_msg("text %d: token %d has %g, not %g", at, i, (double)row[i], (double)g->want[i]);
}

/* At once, and behind each of its tokens. */
static void run(const struct json *c, int at)
{
    static struct given g;
    float row[VOCAB];
    memset(&g, 0, sizeof g);
    g.p = (struct sample_params){.dry_multiplier = member(c, "multiplier"),
                                 .dry_base = member(c, "base"),
                                 .dry_allowed = (int64_t)member(c, "allowed"),
                                 .dry_last = (int64_t)member(c, "last"),
                                 .dry_breaks = g.breaks,
                                 .dry_breaker = g.breaker};
    for (int i = 0; i < VOCAB; i++)
        g.want[i] = (float)i;
    read_lists(c, &g);
    edit(&g, g.n, row);
    compare(&g, row, at);
    memset(g.space, 0, sizeof g.space);
    for (int64_t n = 1; n <= g.n; n++)
        edit(&g, n, row);
    compare(&g, row, at);
}

static void like_the_definition(void **state)
{
    struct err e = ERR_INIT;
    struct json_doc *d =
        json_read("tests/golden/sampler/serial.json", "serial.json", &json_rules_config, &e);
    int n = 0;
    (void)state;
    assert_good(d ? 0 : -1, &e);
    struct json root = json_root(d), all = json_member(&root, "dry"), c;
    json_each(c, all) run(&c, n++);
    assert_int_equal(n, 400);
    json_free(d);
}

/* Faults: a penalty without end, which stands for a token that cannot be; steps of the text's
 * length times itself. */
static void one_token_over_and_over(void **state)
{
    enum { LONG = 1 << 20 };
    struct sample_params p = {
        .dry_multiplier = 1, .dry_base = 1.75, .dry_allowed = 2, .dry_last = -1};
    int32_t *text = calloc(LONG, sizeof *text), *space = calloc(DRY_KNOWN + LONG, sizeof *space);
    int32_t longest[2];
    float row[2] = {1, 2};
    (void)state;
    assert_true(text && space);
    dry_edit(&p, text, LONG, space, longest, row);
    assert_true(row[0] < -1e38f && row[0] >= -FLT_MAX);
    assert_true(row[1] > 1.5f);
    free(text);
    free(space);
}

/* Fault: each step looks for every breaker at every place of a text that repeats itself. */
static void many_breakers(void **state)
{
    enum { LONG = 1 << 16, STEPS = 1000, BREAKERS = SAMPLE_LISTS_MAX / 3 };
    static int32_t text[LONG], space[DRY_KNOWN + LONG], breaker[3 * BREAKERS];
    struct sample_params p = {.dry_multiplier = 1,
                              .dry_base = 1,
                              .dry_allowed = 2,
                              .dry_last = -1,
                              .dry_breaker = breaker,
                              .n_dry_breaker = 3 * BREAKERS};
    int32_t longest[2];
    (void)state;
    for (int i = 0; i < BREAKERS; i++) {
        const int32_t one[] = {2, 0, 1};
        memcpy(breaker + (ptrdiff_t)3 * i, one, sizeof one);
    }
    for (int i = LONG - STEPS + 1; i <= LONG; i++) {
        float row[2] = {1, 2};
        dry_edit(&p, text, i, space, longest, row);
        assert_true(row[0] < 0.5f && row[1] > 1.5f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(like_the_definition),
                                       cmocka_unit_test(one_token_over_and_over),
                                       cmocka_unit_test(many_breakers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
