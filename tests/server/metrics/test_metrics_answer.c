/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of an answer: played by an engine that the test is.
 */
#include <stdio.h>
#include <string.h>

#include "engine/serve/answer_write.h"
#include "server/metrics/metrics.h"
#include "tests/lib/test.h"

static struct answer *fresh(int64_t max_new)
{
    struct err e = ERR_INIT;
    struct answer_bell *bell = answer_bell_new();
    struct answer_room room = {.n_prompt = 4, .max_new = max_new};
    struct answer *a = answer_new(&room, bell, &e);
    assert_non_null(a);
    answer_bell_unref(bell);
    return a;
}

/* The engine's end as well as the reader's. */
static void done(struct answer *a)
{
    answer_unref(a);
}

static void put(struct answer *a, int64_t at_us)
{
    struct answer_token t = {.at_us = at_us, .id = 1};
    answer_put(a, &t, NULL, 0);
}

static void assert_sum(struct metrics *m, const char *name, const char *sum, int n)
{
    char line[256];
    struct buf out;
    buf_init(&out, 1 << 24);
    metrics_write(m, &(struct metrics_text){.model = "m"}, &out);
    snprintf(line, sizeof line, "\n%s_sum{model_name=\"m\"} %s\n%s_count{model_name=\"m\"} %d\n",
             name, sum, name, n);
    if (!strstr(out.data, line))
        fail_msg("no %s in %s", line, strstr(out.data, name));
    buf_release(&out);
}

/* Fault: a time measured from the wrong moment, a token counted twice or not at all. */
static void times_are_told(void **state)
{
    (void)state;
    struct metrics *m = metrics_new(NULL, 0);
    struct answer *a = fresh(10);
    put(a, 1500000);
    put(a, 1600000);
    put(a, 1900000);
    struct answer_end *end = answer_end_room(a);
    end->queued_us = 1200000;
    end->first_us = 1500000;
    end->end_us = 2000000;
    answer_close(a, GEN_LENGTH);
    struct metrics_request r = {.begin_us = 1000000, .submit_us = 1100000, .n_prompt = 4};
    metrics_answer(m, a, &r);
    assert_sum(m, "tandem_time_to_first_token_seconds", "0.5", 1);
    assert_sum(m, "vllm:time_to_first_token_seconds", "0.5", 1);
    assert_sum(m, "tandem_request_queue_time_seconds", "0.1", 1);
    assert_sum(m, "tandem_request_prefill_time_seconds", "0.3", 1);
    assert_sum(m, "tandem_request_decode_time_seconds", "0.4", 1);
    assert_sum(m, "tandem_inter_token_latency_seconds", "0.4", 2);
    assert_sum(m, "tandem_request_latency_seconds", "1.0", 1);
    assert_sum(m, "tandem_request_prompt_tokens", "4", 1);
    assert_sum(m, "tandem_request_generation_tokens", "3", 1);
    assert_int_equal(metrics_get(m, METRIC_request_ended, 1), 1);
    done(a);
    metrics_free(m);
}

/* Fault: an answer that never left the queue read as one that took a negative time, or since the
 * machine began. */
static void unbegun_has_waited_only(void **state)
{
    static const enum gen_end why[] = {GEN_CANCELLED, GEN_FAILED, GEN_STOPPED};
    static const size_t at[] = {2, 3, 0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct metrics *m = metrics_new(NULL, 0);
        struct answer *a = fresh(10);
        answer_end_room(a)->end_us = 1300000;
        answer_close(a, why[i]);
        struct metrics_request r = {.begin_us = 1000000, .submit_us = 1100000, .n_prompt = 4};
        metrics_answer(m, a, &r);
        assert_int_equal(metrics_get(m, METRIC_request_ended, at[i]), 1);
        assert_sum(m, "tandem_request_queue_time_seconds", "0.2", 1);
        assert_sum(m, "tandem_request_latency_seconds", "0.3", 1);
        assert_sum(m, "tandem_request_prefill_time_seconds", "0.0", 0);
        assert_sum(m, "tandem_time_to_first_token_seconds", "0.0", 0);
        assert_sum(m, "tandem_request_decode_time_seconds", "0.0", 0);
        done(a);
        metrics_free(m);
    }
}

/* Fault: an answer that was left alone read before its end is there. */
static void left_alone_is_an_abort(void **state)
{
    (void)state;
    struct metrics *m = metrics_new(NULL, 0);
    struct answer *a = fresh(10);
    put(a, 1500000);
    answer_cancel(a);
    metrics_answer(m, a, &(struct metrics_request){.begin_us = 1, .n_prompt = 4});
    assert_int_equal(metrics_get(m, METRIC_request_ended, 2), 1);
    assert_int_equal(metrics_get(m, METRIC_request_generation, 0), 1);
    assert_int_equal(metrics_get(m, METRIC_request_time, 0), 0);
    answer_close(a, GEN_CANCELLED);
    done(a);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_told),
        cmocka_unit_test(unbegun_has_waited_only),
        cmocka_unit_test(left_alone_is_an_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
