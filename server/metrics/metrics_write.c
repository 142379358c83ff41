/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics as text, format 0.0.4. A row with an alias is written twice, as a family of each name.
 * Cells of routes that nothing has hit are left out: there are a thousand of them, and a series
 * that begins late is what Prometheus expects of labels.
 */
#include <inttypes.h>
#include <stdio.h>

#include "server/metrics/metrics_row.h"

enum { LABEL_BYTES_MAX = 1 << 16 };

static const char *const kind_name[] = {
    [METRIC_COUNTER] = "counter",
    [METRIC_GAUGE] = "gauge",
    [METRIC_HISTOGRAM] = "histogram",
};

void metrics_label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s%s=\"", out->len ? "," : "", name);
    for (const char *p = value; *p; p++) {
        if (*p == '\\' || *p == '"')
            buf_char(out, '\\');
        if (*p == '\n')
            buf_str(out, "\\n");
        else
            buf_char(out, *p);
    }
    buf_char(out, '"');
}

/* The labels of a cell, without braces. */
static void labels(const struct metrics *m, enum metric id, size_t at,
                   const struct metrics_text *text, struct buf *out)
{
    const char *model = text->model ? text->model : "";
    buf_clear(out);
    switch (metric_row[id].label) {
    case METRIC_LABEL_NONE:
        break;
    case METRIC_LABEL_MODEL:
        metrics_label(out, "model_name", model);
        break;
    case METRIC_LABEL_REASON:
        metrics_label(out, "model_name", model);
        metrics_label(out, "finished_reason", metric_reason_name[at]);
        break;
    case METRIC_LABEL_GATE:
        metrics_label(out, "class", metric_gate_name[at]);
        break;
    case METRIC_LABEL_ROUTE:
        metrics_label(out, "route", at < m->n_route ? m->route[at] : "other");
        break;
    case METRIC_LABEL_HTTP: {
        size_t method = at / METRIC_N_STATUS, route = method / METRIC_N_METHOD;
        metrics_label(out, "route", route < m->n_route ? m->route[route] : "other");
        metrics_label(out, "method", metric_method_name[method % METRIC_N_METHOD]);
        metrics_label(out, "status", metric_status_name[at % METRIC_N_STATUS]);
        break;
    }
    case METRIC_LABEL_KEY:
        metrics_label(out, "key", at < METRIC_N_KEY ? atomic_load(&m->key[at]) : "other");
        break;
    case METRIC_LABEL_INFO:
        buf_str(out, text->info[id] ? text->info[id] : "");
        break;
    }
}

static void value(struct buf *out, const struct metric_measure *u, int64_t v)
{
    if (!u->is_micro) {
        buf_printf(out, "%" PRId64, v);
        return;
    }
    char text[40];
    uint64_t size = v < 0 ? -(uint64_t)v : (uint64_t)v;
    int n = snprintf(text, sizeof text, "%s%" PRIu64 ".%06" PRIu64, v < 0 ? "-" : "",
                     size / 1000000, size % 1000000);
    while (text[n - 1] == '0' && text[n - 2] != '.')
        n--;
    buf_add(out, text, (size_t)n);
}

static void plain(struct buf *out, const char *name, const char *tail, const struct buf *label,
                  const struct metric_measure *u, int64_t v)
{
    buf_printf(out, "%s%s", name, tail);
    if (label->len)
        buf_printf(out, "{%s}", label->data);
    buf_char(out, ' ');
    value(out, u, v);
    buf_char(out, '\n');
}

static void histogram(struct buf *out, const char *name, const struct buf *label,
                      const struct metric_measure *u, const _Atomic int64_t *cell)
{
    int64_t n = 0;
    for (size_t i = 0; i <= u->n_bound; i++) {
        n += atomic_load_explicit(&cell[i], memory_order_relaxed);
        buf_printf(out, "%s_bucket{%s%sle=\"", name, label->len ? label->data : "",
                   label->len ? "," : "");
        if (i < u->n_bound)
            value(out, u, u->bound[i]);
        else
            buf_str(out, "+Inf");
        buf_printf(out, "\"} %" PRId64 "\n", n);
    }
    plain(out, name, "_sum", label, u,
          atomic_load_explicit(&cell[u->n_bound + 1], memory_order_relaxed));
    plain(out, name, "_count", label, &(struct metric_measure){0}, n);
}

static bool is_shown(const struct metrics *m, enum metric id, size_t at,
                     const struct metrics_text *text)
{
    enum metric_label label = metric_row[id].label;
    if (label == METRIC_LABEL_INFO)
        return text->info[id];
    if (label == METRIC_LABEL_KEY)
        return at < METRIC_N_KEY ? (bool)atomic_load(&m->key[at]) : metrics_get(m, id, at) > 0;
    return (label != METRIC_LABEL_ROUTE && label != METRIC_LABEL_HTTP) || metrics_get(m, id, at);
}

static void family(const struct metrics *m, enum metric id, const char *name,
                   const struct metrics_text *text, struct buf *label, struct buf *out)
{
    const struct metric_row *row = &metric_row[id];
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, row->help, name, kind_name[row->kind]);
    for (size_t at = 0; at < metric_cells(m, id); at++) {
        if (!is_shown(m, id, at, text))
            continue;
        const _Atomic int64_t *cell = metric_cell(m, id, at);
        labels(m, id, at, text, label);
        if (row->kind == METRIC_HISTOGRAM)
            histogram(out, name, label, row->measure, cell);
        else
            plain(out, name, "", label, row->measure,
                  atomic_load_explicit(cell, memory_order_relaxed));
    }
}

void metrics_write(const struct metrics *m, const struct metrics_text *text, struct buf *out)
{
    struct buf label;
    buf_init(&label, LABEL_BYTES_MAX);
    for (int id = 0; id < METRIC_COUNT; id++) {
        family(m, id, metric_row[id].name, text, &label, out);
        if (*metric_row[id].alias)
            family(m, id, metric_row[id].alias, text, &label, out);
    }
    buf_release(&label);
}
