/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of eager steps, on a device on paper that counts. Faults: a step like one before that
 * asks the device again; a ceiling that is passed, or that memory nobody uses keeps from whom it
 * would serve; a refusal without its numbers; room that is lost, or given twice; what lasts among
 * what goes, so that neither fills the room of the other.
 */
#include "tests/lib/test.h"

#include "engine/base/rng.h"
#include "engine/device/device_dry.h"
#include "engine/eager/cache.h"

enum { MB = 1 << 20, N_BUF = 24, STEPS = 200 };

struct world {
    struct pool *pool;
    struct device *cpu, *dry;
    struct eager_cache c;
};

static void world_init(struct world *w, size_t most)
{
    struct err e = ERR_INIT;
    w->pool = pool_new(1, false, &e);
    w->cpu = device_cpu_new(w->pool, NULL, &e);
    assert_good(w->cpu ? 0 : -1, &e);
    w->dry = device_dry_new(w->cpu);
    eager_cache_init(&w->c, w->dry);
    w->c.most_bytes = most;
}

static void world_release(struct world *w)
{
    eager_cache_release(&w->c);
    assert_int_equal(device_dry_bytes(w->dry), 0);
    device_free(w->dry);
    device_free(w->cpu);
    pool_free(w->pool);
}

/* Takes buffers of these sizes, all at once, and gives them back. */
static int step(struct world *w, const size_t *bytes, int n, struct err *e)
{
    struct eager_buf *b[N_BUF];
    int got = 0;
    while (got < n && (b[got] = eager_buf_new(&w->c, bytes[got], e)))
        got++;
    for (int i = 0; i < got; i++)
        for (int j = 0; j < i; j++)
            assert_true((char *)b[i]->p >= (char *)b[j]->p + b[j]->bytes ||
                        (char *)b[j]->p >= (char *)b[i]->p + b[i]->bytes);
    for (int i = 0; i < 2 * got; i += 2) /* not in the order they came */
        eager_buf_unref(&w->c, b[i < got ? i : (i - got) | 1]);
    return got == n ? 0 : -1;
}

static void the_same_step_takes_nothing(void **state)
{
    static const size_t sizes[] = {300, 5 * MB, 70 * MB, 64, 90 * MB, 3 * MB, 12 * MB};
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, 0);
    assert_good(step(&w, sizes, 7, &e), &e);
    size_t held = device_dry_bytes(w.dry), peak = device_dry_peak(w.dry);
    for (int i = 0; i < 5; i++)
        assert_good(step(&w, sizes, 7, &e), &e);
    assert_int_equal(device_dry_bytes(w.dry), held);
    assert_int_equal(device_dry_peak(w.dry), peak);
    assert_int_equal(w.c.held_bytes, held);
    world_release(&w);
}

/* Between steps all goes back, and the next is as the first; what somebody holds stays. */
static void what_rests_goes_back(void **state)
{
    static const size_t sizes[] = {5 * MB, 70 * MB, 90 * MB};
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, 200 * MB);
    assert_good(step(&w, sizes, 3, &e), &e);
    eager_cache_trim(&w.c);
    assert_int_equal(device_dry_bytes(w.dry), 0);
    assert_good(step(&w, sizes, 3, &e), &e);
    struct eager_buf *held = eager_buf_new(&w.c, 80 * MB, &e);
    assert_non_null(held);
    eager_cache_trim(&w.c);
    assert_in_range(device_dry_bytes(w.dry), 80 * MB, 95 * MB);
    eager_buf_unref(&w.c, held);
    world_release(&w);
}

static void the_ceiling_holds(void **state)
{
    static const size_t fits[] = {40 * MB, 40 * MB, 20 * MB};
    static const size_t over[] = {40 * MB, 40 * MB, 20 * MB, 1};
    static const size_t large[] = {80 * MB, 16 * MB}, too_large[] = {101 * MB};
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, 100 * MB);
    assert_good(step(&w, fits, 3, &e), &e);
    assert_err(step(&w, over, 4, &e), &e, ERR_NO_MEMORY, "104.9 MB that were planned");
    e = (struct err)ERR_INIT;
    assert_good(step(&w, fits, 3, &e), &e);  /* as if nothing had been */
    assert_good(step(&w, large, 2, &e), &e); /* which needs what those slabs held */
    assert_good(step(&w, fits, 3, &e), &e);
    assert_err(step(&w, too_large, 1, &e), &e, ERR_NO_MEMORY, "1.0 MB more");
    assert_true(device_dry_peak(w.dry) <= 100 * MB);
    world_release(&w);
}

/* Steps of any lengths under a ceiling that each of them fits easily. */
static void steps_of_all_lengths(void **state)
{
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, 200 * MB);
    for (uint64_t s = 0; s < STEPS; s++) {
        size_t bytes[N_BUF], all = 0;
        int n = 0;
        while (n < N_BUF && all < 50 * MB) {
            bytes[n] = (size_t)(rng_unit(7, s, (uint64_t)n) * rng_unit(8, s, (uint64_t)n) *
                                (double)(70 * MB));
            all += bytes[n++];
        }
        assert_good(step(&w, bytes, n, &e), &e);
        assert_int_equal(w.c.used_bytes, 0);
        assert_int_equal(w.c.held_bytes, device_dry_bytes(w.dry));
    }
    assert_true(device_dry_peak(w.dry) <= 200 * MB);
    world_release(&w);
}

/* As a backward does: values go from the last to the first, and for each comes a gradient that is a
 * little larger, so that no value's room holds one. Each step as the first. */
static void what_lasts_keeps_apart(void **state)
{
    enum { N = 600, STEP = 3, VALUE = 900 << 10, GRADIENT = 1 << 20 };
    struct eager_buf *value[N], *gradient[N];
    struct world w;
    struct err e = ERR_INIT;
    (void)state;
    world_init(&w, 0);
    for (int s = 0; s < STEP; s++) {
        for (int i = 0; i < N; i++)
            assert_non_null(value[i] = eager_buf_new(&w.c, VALUE, &e));
        for (int i = N; i-- > 0;) {
            eager_buf_unref(&w.c, value[i]);
            assert_non_null(gradient[i] = eager_buf_new_lasting(&w.c, GRADIENT, &e));
        }
        for (int i = 0; i < N; i++)
            eager_buf_unref(&w.c, gradient[i]);
    }
    /* 600 MB of gradients; a slab that is not full, and what is lost at the end of each */
    assert_in_range(w.c.held_bytes, (size_t)N * GRADIENT, (size_t)(N + 80) * GRADIENT);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_step_takes_nothing), cmocka_unit_test(what_rests_goes_back),
        cmocka_unit_test(the_ceiling_holds),           cmocka_unit_test(steps_of_all_lengths),
        cmocka_unit_test(what_lasts_keeps_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
