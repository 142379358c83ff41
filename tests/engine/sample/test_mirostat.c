/* SPDX-License-Identifier: Apache-2.0
 *
 * Mirostat 2 against tests/golden/make_serial.py. Faults it can catch: a cut by the wrong bits, one
 * that takes the others into account, a surprise of the probabilities before the cut, a state that
 * moves the other way.
 */
#include <math.h>

#include "engine/load/json.h"
#include "engine/sample/sampler.h"
#include "tests/lib/test.h"

enum { N = 50 };

static void read_all(const struct json *list, double *to, int room)
{
    struct err e = ERR_INIT;
    struct json v;
    int n = 0;
    json_each(v, *list) assert_good(n < room ? json_as_num(&v, &to[n++], &e) : -1, &e);
}

static double member(const struct json *c, const char *name)
{
    struct err e = ERR_INIT;
    double x;
    assert_good(json_get_num(c, name, &x, &e), &e);
    return x;
}

/* Each of `kept` is drawn about as often as it is to be, moves the state as it is to, and nothing
 * else is drawn. */
static void draw_kept(struct sampler *s, const struct json *c, int n_vocab)
{
    enum { PLACES = 3000 };
    double x[N], want[N] = {0}, mu[N];
    int count[N] = {0};
    float logits[N];
    struct json row = json_member(c, "row"), kept = json_member(c, "kept"), v;
    struct sample_params p = {.temperature = member(c, "temperature"),
                              .top_p = 0.01, /* a cut that does not count */
                              .repetition = 1,
                              .mirostat = 2,
                              .mirostat_tau = member(c, "tau"),
                              .mirostat_eta = member(c, "eta")};
    struct sample_row r = {.logits = logits, .params = &p, .mu = member(c, "mu")};
    read_all(&row, x, n_vocab);
    for (int i = 0; i < n_vocab; i++)
        logits[i] = (float)x[i];
    json_each(v, kept)
    {
        double one[3];
        read_all(&v, one, 3);
        want[(int)one[0]] = one[1];
        mu[(int)one[0]] = one[2];
    }
    for (r.place = 0; r.place < PLACES; r.place++) {
        struct sample_taken t;
        struct err e = ERR_INIT;
        assert_good(sampler_next(s, &r, &t, &e), &e);
        assert_true(want[t.id] > 0);
        assert_float_equal(t.mu, mu[t.id], 1e-4);
        count[t.id]++;
    }
    for (int i = 0; i < n_vocab; i++)
        assert_true(fabs(count[i] - PLACES * want[i]) <= 5 * sqrt(PLACES * want[i]) + 5);
}

static void mirostat(void **state)
{
    struct err e = ERR_INIT;
    struct json_doc *d =
        json_read("tests/golden/sampler/serial.json", "serial.json", &json_rules_config, &e);
    struct kernel_table table;
    int n = 0;
    (void)state;
    assert_good(d ? 0 : -1, &e);
    struct json root = json_root(d), all = json_member(&root, "mirostat"), c;
    int n_vocab = (int)member(&root, "vocab");
    kernel_table_init(&table, NULL);
    struct sampler *s = sampler_new(n_vocab, &table, &e);
    assert_good(s ? 0 : -1, &e);
    json_each(c, all)
    {
        draw_kept(s, &c, n_vocab);
        n++;
    }
    assert_int_equal(n, 60);
    sampler_free(s);
    json_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mirostat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
