/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/model/dora: gains of a weight with more outputs than are looked at in one go, by their
 * definition.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/pool.h"
#include "engine/model/dora.h"

enum { N = 600, K = 64, RANK = 3 };

static float draw(int64_t i, int64_t stream)
{
    return (float)sin((double)(i * 37 + stream * 11 + 1));
}

static double length_of(const float *w, const struct dora_halves *h, int64_t o)
{
    double sum = 0;
    for (int64_t i = 0; i < K; i++) {
        double x = w[o * K + i];
        for (int64_t r = 0; r < RANK; r++)
            x += (double)h->scale * h->b[o * RANK + r] * h->a[r * K + i];
        sum += x * x;
    }
    return sqrt(sum);
}

static void check(enum k_type type, struct device *d)
{
    static float w[N * K], a[RANK * K], b[N * RANK], magnitude[N];
    const struct dora_halves h = {a, b, magnitude, RANK, 0.5f};
    struct err e = ERR_INIT;
    struct dora dora;
    struct param p = {.name = "w", .n = N, .k = K};
    float *gain = try_alloc(N, sizeof *gain, "gains", &e);
    void *data = try_alloc(1, k_weight_bytes(type, N, K), "a weight", &e);
    for (int64_t i = 0; i < N * K; i++)
        w[i] = draw(i, 0);
    for (int64_t i = 0; i < RANK * K; i++)
        a[i] = draw(i, 1);
    for (int64_t i = 0; i < N * RANK; i++)
        b[i] = draw(i, 2);
    for (int64_t o = 0; o < N; o++)
        magnitude[o] = 1 + draw(o, 3);
    k_weight_bind(&p.w, type, N, K, data);
    struct k_weight_pack pack = {.src = w, .src_type = K_F32, .ld_src = K, .w = p.w, .n_src = N};
    struct k_weight_unpack unpack = {.w = p.w, .dst = w, .ld_dst = K};
    kernel_run(device_kernels(d), K_weight_pack, &pack, NULL);
    kernel_run(device_kernels(d), K_weight_unpack, &unpack, NULL);
    assert_good(dora_init(&dora, d, &e), &e);
    assert_good(dora_find(&dora, &p, &h, gain, &e), &e);
    for (int64_t o = 0; o < N; o++) {
        double want = (double)magnitude[o] / length_of(w, &h, o);
        assert_true(fabs((double)gain[o] - want) <= 1e-5 * fabs(want));
    }
    dora_release(&dora);
    mem_free(data);
    mem_free(gain);
}

/* Faults: a run of outputs that has the numbers, scales or halves of the first one, or writes where
 * it did. */
static void every_output_has_its_gain(void **state)
{
    static const enum k_type type[] = {K_F32, K_BF16, K_INT8, K_INT4};
    struct err e = ERR_INIT;
    struct pool *pool = pool_new(1, false, &e);
    struct device *d = device_cpu_new(pool, getenv("TEST_KERNELS"), &e);
    (void)state;
    assert_non_null(d);
    for (size_t i = 0; i < sizeof type / sizeof *type; i++)
        check(type[i], d);
    device_free(d);
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_output_has_its_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
