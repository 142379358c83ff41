/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server counts, and how it tells Prometheus. Each metric is a row of metrics.def; its
 * labels are of a closed set (routes of the table, methods, classes of status, reasons) or names
 * that the operator gave (of keys, the first 64 that come), so that what clients send can never
 * make the text grow.
 *
 * Every value is an integer in one flat array of atomics: whole things, or millionths of a second
 * or of a ratio. A request costs a handful of additions; a token costs one at its request's end.
 * What others count anyway (the engine, the gate, the kernel) is read when somebody asks:
 * metrics_sample.
 *
 * Who feeds what: the transport metrics_http, metrics_key and metrics_connection; the loops of
 * generating routes metrics_answer, once for each answer.
 *
 * Thread: any, without locks; metrics_new and metrics_free from one.
 */
#ifndef SERVER_METRICS_METRICS_H
#define SERVER_METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"

enum metric {
#define METRIC(id, kind, measure, labels, name, alias, help) METRIC_##id,
#include "server/metrics/metrics.def"
#undef METRIC
    METRIC_COUNT
};

struct answer;
struct metrics;
struct server;

/* route: the templates of the paths, in the order of the router's table; borrowed, constant. */
struct metrics *metrics_new(const char *const *route, size_t n_route);
void metrics_free(struct metrics *m);

/* A request was answered. route: its row; negative: no row fits. method: as sent. */
void metrics_http(struct metrics *m, int route, const char *method, int status, int64_t took_us);

/* A request of that key's, or of a batch of its, was answered. */
void metrics_key(struct metrics *m, const char *name, int status, int64_t n_prompt,
                 int64_t n_generated);

void metrics_connection(struct metrics *m, int change); /* +1: accepted; -1: closed */

/* One answer ended and will be read no further. */
struct metrics_request {
    int64_t begin_us;  /* clock_us when the request came */
    int64_t submit_us; /* when the engine had it */
    int64_t n_prompt;
};
void metrics_answer(struct metrics *m, const struct answer *a, const struct metrics_request *r);

/* The cells themselves: `at` is the place among the row's labels, 0 for a row without. */
void metrics_add(struct metrics *m, enum metric id, size_t at, int64_t n);
void metrics_set(struct metrics *m, enum metric id, size_t at, int64_t value);
/* A histogram that somebody else counts: n for each bound and for what is above all. */
void metrics_set_histogram(struct metrics *m, enum metric id, const int64_t *n, int64_t sum);
void metrics_observe(struct metrics *m, enum metric id, size_t at, int64_t value);
int64_t metrics_get(const struct metrics *m, enum metric id, size_t at); /* of a histogram: count */

/* Many observations of one histogram, gathered without atomics and added at once. */
enum { METRICS_BOUNDS_MAX = 24 };
struct metrics_tally {
    uint32_t n[METRICS_BOUNDS_MAX + 1];
    int64_t sum;
};
void metrics_tally(struct metrics_tally *t, enum metric id, int64_t value);
void metrics_tally_add(struct metrics *m, enum metric id, size_t at, const struct metrics_tally *t);

/* Texts that only the scrape knows: the model's name, and the labels of the rows of kind INFO. */
struct metrics_text {
    const char *model;              /* NULL: "" */
    const char *info[METRIC_COUNT]; /* `name="value",...`; NULL: the row is left out */
};
void metrics_label(struct buf *out, const char *name, const char *value); /* escaped, with commas */

/* Reads what others count: engine, gate, process. The texts go into `text` and lie in `at`. */
struct arena;
void metrics_sample(struct metrics *m, struct server *s, struct metrics_text *text,
                    struct arena *at);

/* The whole text, format 0.0.4. */
void metrics_write(const struct metrics *m, const struct metrics_text *text, struct buf *out);

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

#endif
