/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows, their cells, and adding to them. Additions are relaxed: a scrape may see a request's
 * count before its sum, and the next scrape sees both.
 */
#include "server/metrics/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "server/metrics/metrics_row.h"

enum { STATUS_BUSY = 429, STATUS_FULL = 503 };

static const struct metric_measure whole = {0}, micro = {.is_micro = true};

static const struct metric_measure short_us = {
    .is_micro = true,
    .n_bound = 18,
    .bound = {100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 75000, 100000, 150000, 250000,
              500000, 1000000, 2500000, 5000000, 10000000},
};

static const struct metric_measure long_us = {
    .is_micro = true,
    .n_bound = 20,
    .bound = {1000,     2500,     5000,     10000,     25000,     50000,    100000,
              250000,   500000,   750000,   1000000,   2500000,   5000000,  10000000,
              20000000, 40000000, 80000000, 160000000, 320000000, 640000000},
};

static const struct metric_measure tokens = {
    .n_bound = 19,
    .bound = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000,
              200000, 500000, 1000000},
};

/* As the engine counts them. */
static const struct metric_measure sequences = {
    .n_bound = 13,
    .bound = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096},
};

const struct metric_row metric_row[METRIC_COUNT] = {
#define METRIC(id, kind, measure, labels, name, alias, help)                                       \
    {METRIC_##kind, METRIC_LABEL_##labels, &measure, name, alias, help},
#include "server/metrics/metrics.def"
#undef METRIC
};

const char *const metric_reason_name[] = {"stop", "length", "abort", "error"};
const char *const metric_gate_name[] = {"serve", "train"};
const char *const metric_method_name[] = {"GET",   "POST",    "DELETE", "HEAD",
                                          "PATCH", "OPTIONS", "PUT",    "other"};
const char *const metric_status_name[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};

/* ---- cells --------------------------------------------------------------------------------- */

size_t metric_cell_size(enum metric id)
{
    const struct metric_row *row = &metric_row[id];
    return row->kind == METRIC_HISTOGRAM ? row->measure->n_bound + 2 : 1;
}

static size_t label_values(enum metric_label label, size_t n_route)
{
    switch (label) {
    case METRIC_LABEL_REASON:
        return METRIC_N_REASON;
    case METRIC_LABEL_GATE:
        return METRIC_N_GATE;
    case METRIC_LABEL_ROUTE:
        return n_route + 1;
    case METRIC_LABEL_HTTP:
        return (n_route + 1) * METRIC_N_METHOD * METRIC_N_STATUS;
    case METRIC_LABEL_KEY:
        return METRIC_N_KEY + 1;
    default:
        return 1;
    }
}

size_t metric_cells(const struct metrics *m, enum metric id)
{
    return label_values(metric_row[id].label, m->n_route);
}

static _Atomic int64_t *cell(const struct metrics *m, enum metric id, size_t at)
{
    ASSERT(at < metric_cells(m, id));
    return m->value + m->begin[id] + at * metric_cell_size(id);
}

const _Atomic int64_t *metric_cell(const struct metrics *m, enum metric id, size_t at)
{
    return cell(m, id, at);
}

static void cell_add(_Atomic int64_t *c, int64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

struct metrics *metrics_new(const char *const *route, size_t n_route)
{
    struct metrics *m = xcalloc(1, sizeof *m);
    m->route = route;
    m->n_route = n_route;
    for (int id = 0; id < METRIC_COUNT; id++)
        m->begin[id + 1] = m->begin[id] + metric_cells(m, id) * metric_cell_size(id);
    m->value = xcalloc(m->begin[METRIC_COUNT], sizeof *m->value);
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < METRIC_N_KEY; i++)
        free(atomic_load(&m->key[i]));
    free(m->value);
    free(m);
}

/* ---- adding -------------------------------------------------------------------------------- */

void metrics_add(struct metrics *m, enum metric id, size_t at, int64_t n)
{
    cell_add(cell(m, id, at), n);
}

void metrics_set(struct metrics *m, enum metric id, size_t at, int64_t value)
{
    atomic_store_explicit(cell(m, id, at), value, memory_order_relaxed);
}

void metrics_set_histogram(struct metrics *m, enum metric id, const int64_t *n, int64_t sum)
{
    size_t n_bound = metric_row[id].measure->n_bound;
    _Atomic int64_t *c = cell(m, id, 0);
    for (size_t i = 0; i <= n_bound; i++)
        atomic_store_explicit(&c[i], n[i], memory_order_relaxed);
    atomic_store_explicit(&c[n_bound + 1], sum, memory_order_relaxed);
}

static size_t bound_of(const struct metric_measure *u, int64_t value)
{
    size_t i = 0;
    while (i < u->n_bound && value > u->bound[i])
        i++;
    return i;
}

void metrics_observe(struct metrics *m, enum metric id, size_t at, int64_t value)
{
    const struct metric_measure *u = metric_row[id].measure;
    _Atomic int64_t *c = cell(m, id, at);
    cell_add(&c[bound_of(u, value)], 1);
    cell_add(&c[u->n_bound + 1], value);
}

int64_t metrics_get(const struct metrics *m, enum metric id, size_t at)
{
    size_t n = metric_row[id].kind == METRIC_HISTOGRAM ? metric_row[id].measure->n_bound + 1 : 1;
    const _Atomic int64_t *c = cell(m, id, at);
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += atomic_load_explicit(&c[i], memory_order_relaxed);
    return sum;
}

void metrics_tally(struct metrics_tally *t, enum metric id, int64_t value)
{
    t->n[bound_of(metric_row[id].measure, value)]++;
    t->sum += value;
}

void metrics_tally_add(struct metrics *m, enum metric id, size_t at, const struct metrics_tally *t)
{
    const struct metric_measure *u = metric_row[id].measure;
    _Atomic int64_t *c = cell(m, id, at);
    for (size_t i = 0; i <= u->n_bound; i++)
        if (t->n[i])
            cell_add(&c[i], t->n[i]);
    if (t->sum)
        cell_add(&c[u->n_bound + 1], t->sum);
}

/* ---- HTTP ---------------------------------------------------------------------------------- */

static size_t method_of(const char *method)
{
    size_t i = 0;
    while (i + 1 < METRIC_N_METHOD && strcmp(method, metric_method_name[i]) != 0)
        i++;
    return i;
}

void metrics_http(struct metrics *m, int route, const char *method, int status, int64_t took_us)
{
    size_t at = route >= 0 && (size_t)route < m->n_route ? (size_t)route : m->n_route;
    size_t class = status >= 100 && status < 600 ? (size_t)status / 100 - 1 : METRIC_N_STATUS - 1;
    metrics_observe(m, METRIC_http_time, at, took_us);
    metrics_add(m, METRIC_http_requests,
                (at * METRIC_N_METHOD + method_of(method)) * METRIC_N_STATUS + class, 1);
}

/* The place of a key's cells: a new name takes the first that is free. */
static size_t key_at(struct metrics *m, const char *name)
{
    char *own = NULL;
    size_t i = 0;
    for (; i < METRIC_N_KEY; i++) {
        char *is = atomic_load(&m->key[i]);
        if (!is) {
            own = own ? own : xstrdup(name);
            if (atomic_compare_exchange_strong(&m->key[i], &is, own))
                return i;
        }
        if (strcmp(is, name) == 0)
            break;
    }
    free(own);
    return i;
}

void metrics_key(struct metrics *m, const char *name, int status, int64_t n_prompt,
                 int64_t n_generated)
{
    size_t at = key_at(m, name);
    metrics_add(m, METRIC_key_requests, at, 1);
    metrics_add(m, METRIC_key_refused, at, status == STATUS_BUSY || status == STATUS_FULL);
    metrics_add(m, METRIC_key_prompt_tokens, at, n_prompt);
    metrics_add(m, METRIC_key_generation_tokens, at, n_generated);
}

void metrics_connection(struct metrics *m, int change)
{
    metrics_add(m, METRIC_http_connections, 0, change);
    if (change > 0)
        metrics_add(m, METRIC_http_accepted, 0, change);
}
