/* SPDX-License-Identifier: Apache-2.0
 *
 * What one answer tells of itself, once it has ended. Times come from the answer, where the engine
 * noted them, so that a slow client does not look like a slow engine.
 */
#include "engine/serve/answer.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_row.h"

static size_t reason_of(enum gen_end end)
{
    switch (end) {
    case GEN_STOPPED:
        return 0;
    case GEN_LENGTH:
        return 1;
    case GEN_RUNS:
    case GEN_CANCELLED:
        return 2;
    case GEN_FAILED:
        break;
    }
    return 3;
}

static void tokens_told(struct metrics *m, const struct answer *a, size_t n)
{
    struct metrics_tally between = {0};
    int64_t last_us = answer_token(a, 0)->at_us, begin_us = last_us;
    for (size_t i = 1; i < n; i++) {
        int64_t at_us = answer_token(a, i)->at_us;
        metrics_tally(&between, METRIC_inter_token, at_us - last_us);
        last_us = at_us;
    }
    metrics_tally_add(m, METRIC_inter_token, 0, &between);
    metrics_observe(m, METRIC_decode_time, 0, last_us - begin_us);
}

void metrics_answer(struct metrics *m, const struct answer *a, const struct metrics_request *r)
{
    enum gen_end state = answer_state(a);
    size_t n = answer_count(a);
    metrics_add(m, METRIC_request_ended, reason_of(state), 1);
    metrics_observe(m, METRIC_request_prompt, 0, r->n_prompt);
    metrics_observe(m, METRIC_request_generation, 0, (int64_t)n);
    if (n)
        tokens_told(m, a, n);
    if (state == GEN_RUNS) /* left alone before its end: its times are not known */
        return;

    const struct answer_end *end = answer_end(a);
    metrics_observe(m, METRIC_request_time, 0, end->end_us - r->begin_us);
    int64_t begun_us = end->queued_us ? end->queued_us : end->end_us;
    metrics_observe(m, METRIC_queue_time, 0, begun_us > r->submit_us ? begun_us - r->submit_us : 0);
    if (end->queued_us && end->first_us) {
        metrics_observe(m, METRIC_prefill_time, 0, end->first_us - end->queued_us);
        metrics_observe(m, METRIC_first_token, 0, end->first_us - r->begin_us);
    }
}
