/* SPDX-License-Identifier: Apache-2.0
 *
 * What others count anyway, read when somebody asks. Counters that belong to the engine are set,
 * not added to: the engine's figures only rise.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/gate.h"
#include "engine/base/version.h"
#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_process.h"
#include "server/metrics/metrics_row.h"
#include "server/server.h"

enum { LABEL_BYTES_MAX = 1 << 16 };

static int64_t millionths(int64_t part, int64_t all)
{
    return all > 0 ? (int64_t)((double)part / (double)all * 1e6 + 0.5) : 0;
}

static void sequences(struct metrics *m, const struct engine_stat *s)
{
    metrics_set(m, METRIC_running, 0, s->n_running);
    metrics_set(m, METRIC_waiting, 0, s->n_waiting);
    metrics_set(m, METRIC_kv_usage, 0, millionths(s->cell_used, s->cell_all));
    metrics_set(m, METRIC_kv_kept, 0, millionths(s->cell_kept, s->cell_all));
    metrics_set(m, METRIC_prompt_tokens, 0, (int64_t)s->tok_prompt);
    metrics_set(m, METRIC_generation_tokens, 0, (int64_t)s->tok_new);
    metrics_set(m, METRIC_prefix_asked, 0, (int64_t)s->prefix_asked);
    metrics_set(m, METRIC_prefix_hit, 0, (int64_t)s->prefix_hit);
    metrics_set(m, METRIC_drafted, 0, (int64_t)s->tok_drafted);
    metrics_set(m, METRIC_accepted, 0, (int64_t)s->tok_accepted);
    metrics_set(m, METRIC_preempted, 0, (int64_t)s->preempted);
    metrics_set(m, METRIC_steps, 0, s->n_step);
    metrics_set(m, METRIC_given_up, 0, s->n_given_up);
    metrics_set(m, METRIC_step_sequences, 0, s->n_seq_last);
    metrics_set_histogram(m, METRIC_step_size, s->n_of_size, s->n_seq_all);
    metrics_set(m, METRIC_heartbeat_age, 0, clock_us() - s->heartbeat_us);
}

static void gate(struct metrics *m, struct gate *g)
{
    struct gate_stat s = gate_stat(g);
    _Static_assert((int)METRIC_N_GATE == (int)GATE_CLASS_COUNT, "a label for each class");
    for (size_t c = 0; c < GATE_CLASS_COUNT; c++) {
        metrics_set(m, METRIC_gate_taken, c, (int64_t)s.of[c].n_take);
        metrics_set(m, METRIC_gate_held, c, s.of[c].held_us);
        metrics_set(m, METRIC_gate_waited, c, s.of[c].wait_us);
        metrics_set(m, METRIC_gate_wait_max, c, s.of[c].wait_max_us);
    }
    metrics_set(m, METRIC_gate_idle, 0, s.idle_us);
    metrics_set(m, METRIC_gate_idle_used, 0, s.idle_used_us);
    metrics_set(m, METRIC_gate_busy, 0, s.busy_us);
    metrics_set(m, METRIC_gate_busy_used, 0, s.busy_used_us);
    metrics_set(m, METRIC_gate_yields, 0, (int64_t)s.n_yield);
    metrics_set(m, METRIC_train_piece_max, 0, s.piece_max_us);
    metrics_set(m, METRIC_train_share, 0, (int64_t)(s.policy.share * 1e6 + 0.5));
    metrics_set(m, METRIC_train_floor, 0, (int64_t)(s.policy.floor * 1e6 + 0.5));
    metrics_set(m, METRIC_train_target, 0, s.policy.latency_us);
}

/* The text in the arena; NULL where it grew too long. */
static const char *text_take(struct buf *b, struct arena *at)
{
    const char *text = b->failed ? NULL : arena_strndup(at, b->data, b->len);
    buf_release(b);
    return text;
}

static const char *number(struct arena *at, int64_t n)
{
    return arena_printf(at, "%" PRId64, n);
}

static const char *cache_labels(const struct engine_info *info, struct arena *at)
{
    struct buf b;
    buf_init(&b, LABEL_BYTES_MAX);
    metrics_label(&b, "block_size", number(at, info->cell_tokens));
    metrics_label(&b, "num_gpu_blocks", number(at, info->n_cell));
    return text_take(&b, at);
}

/* Gateways send a request to a server that has its adapter. Those that are read when they are asked
 * for, and are not there now, are not told. */
static const char *lora_labels(struct engine *g, struct arena *at)
{
    size_t cap = engine_adapters(g, NULL, 0);
    struct engine_adapter_info *info = ARENA_ARRAY(at, struct engine_adapter_info, cap + 1);
    size_t n = engine_adapters(g, info, cap);
    struct buf names, b;
    buf_init(&names, LABEL_BYTES_MAX);
    buf_init(&b, LABEL_BYTES_MAX);
    buf_str(&names, "");
    for (size_t i = 0; i < n && i < cap; i++)
        if (info[i].version)
            buf_printf(&names, "%s%s", names.len ? "," : "", info[i].name);
    metrics_label(&b, "max_lora", number(at, engine_info(g)->max_adapters));
    metrics_label(&b, "running_lora_adapters", names.failed ? "" : names.data);
    metrics_label(&b, "waiting_lora_adapters", "");
    buf_release(&names);
    return text_take(&b, at);
}

static const char *build_labels(struct arena *at)
{
    struct buf b;
    buf_init(&b, LABEL_BYTES_MAX);
    metrics_label(&b, "version", version_number());
    metrics_label(&b, "mode", version_mode());
    return text_take(&b, at);
}

void metrics_sample(struct metrics *m, struct server *s, struct metrics_text *text,
                    struct arena *at)
{
    *text = (struct metrics_text){.info[METRIC_build_info] = build_labels(at)};
    metrics_set(m, METRIC_build_info, 0, 1);
    metrics_set(m, METRIC_ready, 0, server_is_ready(s));
    metrics_process(m);
    struct engine *g = server_engine(s);
    if (!g)
        return;
    struct engine_stat stat = engine_stat(g);
    sequences(m, &stat);
    if (engine_gate(g))
        gate(m, engine_gate(g));
    text->model = engine_info(g)->name;
    text->info[METRIC_cache_config] = cache_labels(engine_info(g), at);
    metrics_set(m, METRIC_cache_config, 0, 1);
    text->info[METRIC_lora_info] = lora_labels(g, at);
    metrics_set(m, METRIC_lora_info, 0, clock_wall_us() / 1000000);
}
