/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue against a search through all.
 */
#include "tests/lib/test.h"

#include "engine/base/rng.h"
#include "engine/sched/inner.h"

/* Fault: another than the best at the head, or a node lost, when any of them may leave. */
static void the_best_is_always_first(void **state)
{
    (void)state;
    enum { N = 200 };
    static struct seq seq[N];
    static struct seq_node node[N];
    bool is_in[N] = {0};
    struct queue q = {0};
    for (uint64_t step = 0; step < 20000; step++) {
        int64_t k = (int64_t)rng_below(1, 0, step, N), best = -1;
        if (is_in[k]) {
            queue_del(&q, &node[k]);
        } else {
            seq[k].age = step;
            node[k].seq = &seq[k];
            node[k].rank = (int64_t)rng_below(1, 1, step, 20);
            queue_push(&q, &node[k]);
        }
        is_in[k] = !is_in[k];
        for (int64_t i = 0; i < N; i++)
            if (is_in[i] && (best < 0 || node_before(&node[i], &node[best])))
                best = i;
        assert_ptr_equal(queue_first(&q), best < 0 ? NULL : &node[best]);
    }
    while (queue_first(&q))
        queue_del(&q, queue_first(&q));
    queue_release(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_best_is_always_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
