/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine offers, against what the C library says of it.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/machine.h"

/* Fault: more CPUs than the process may use: threads that fight for one CPU. */
static void cpus_follow_the_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_in_range(machine_cpus(), 1, CPU_COUNT(&before));
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one))
        skip();
    assert_int_equal(machine_cpus(), 1);
    sched_setaffinity(0, sizeof before, &before);
}

/* Faults: a CPU named twice or not ours; the sibling of a core before another core. */
static void list_names_each_cpu_once(void **state)
{
    (void)state;
    cpu_set_t set;
    int cpu[CPU_SETSIZE], one[1], n = machine_cpu_list(cpu, CPU_SETSIZE);
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(n, CPU_COUNT(&set));
    for (int i = 0; i < n; i++) {
        assert_true(CPU_ISSET(cpu[i], &set));
        CPU_CLR(cpu[i], &set);
    }
    assert_in_range(machine_cores(), 1, n);
    assert_int_equal(machine_cpu_list(one, 1), 1);
    assert_int_equal(one[0], cpu[0]);
}

/* Fault: kilobytes taken for bytes; a missing bound read as no memory at all. */
static void memory_is_in_bytes(void **state)
{
    (void)state;
    size_t total, left, physical = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    machine_memory(&total, &left);
    assert_in_range(total, 1 << 24, physical);
    assert_in_range(left, 1 << 20, total);
}

struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

static uint64_t turns(void)
{
    struct attr a = {0};
    assert_int_equal(syscall(SYS_sched_getattr, 0, &a, sizeof a, 0), 0);
    return a.runtime_ns;
}

static void *turns_of_a_thread(void *out)
{
    *(uint64_t *)out = turns();
    return NULL;
}

/* Fault: threads that serve have the turns of those that compute, or these have theirs. A system
 * that knows of no turns says 0 of them, whatever is asked for. */
static void short_turns_are_inherited_and_given_back(void **state)
{
    (void)state;
    const uint64_t shortest = 100 * 1000;
    uint64_t before = turns(), want = before ? shortest : 0, of_thread = shortest + 1;
    pthread_t t;
    machine_turns(shortest);
    assert_int_equal(turns(), want);
    assert_int_equal(pthread_create(&t, NULL, turns_of_a_thread, &of_thread), 0);
    pthread_join(t, NULL);
    assert_int_equal(of_thread, want);
    machine_turns(0);
    assert_int_equal(turns(), before);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(cpus_follow_the_affinity),
        cmocka_unit_test(list_names_each_cpu_once),
        cmocka_unit_test(memory_is_in_bytes),
        cmocka_unit_test(short_turns_are_inherited_and_given_back),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
