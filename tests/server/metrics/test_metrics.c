/* SPDX-License-Identifier: Apache-2.0
 *
 * The metrics: cells, labels, the text.
 */
#include "server/metrics/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "server/metrics/metrics_process.h"
#include "server/metrics/metrics_row.h"
#include "tests/lib/test.h"

static const char *const route[] = {"/v1/models", "/v1/models/{id}", "/health"};

static struct metrics *fresh(void)
{
    return metrics_new(route, 3);
}

static struct buf text_of(const struct metrics *m, const struct metrics_text *text)
{
    struct buf out;
    buf_init(&out, 1 << 24);
    metrics_write(m, text, &out);
    assert_false(out.failed);
    return out;
}

/* As text_of, with the words searched. */
static void assert_line(const struct metrics *m, const char *line, bool is_there)
{
    const struct metrics_text text = {.model = "m"};
    struct buf out = text_of(m, &text);
    char want[512];
    snprintf(want, sizeof want, "\n%s\n", line);
    if (!strstr(out.data, want) != !is_there)
        fail_msg("%s: %s\n%s", is_there ? "lacks" : "has", line, out.data);
    buf_release(&out);
}

/* Fault: a value on a bound counted above it; buckets that do not add up; a sum of another unit. */
static void counts_in_buckets(void **state)
{
    (void)state;
    struct metrics *m = fresh();
    const int64_t v[] = {1000, 1001, 640000000, 640000001, 0};
    for (size_t i = 0; i < 5; i++)
        metrics_observe(m, METRIC_request_time, 0, v[i]);
    const char *const name[] = {"tandem_request_latency_seconds",
                                "vllm:e2e_request_latency_seconds"};
    for (int i = 0; i < 2; i++) {
        char line[256];
        snprintf(line, sizeof line, "# TYPE %s histogram", name[i]);
        assert_line(m, line, true);
        snprintf(line, sizeof line, "%s_bucket{model_name=\"m\",le=\"0.001\"} 2", name[i]);
        assert_line(m, line, true);
        snprintf(line, sizeof line, "%s_bucket{model_name=\"m\",le=\"0.0025\"} 3", name[i]);
        assert_line(m, line, true);
        snprintf(line, sizeof line, "%s_bucket{model_name=\"m\",le=\"640.0\"} 4", name[i]);
        assert_line(m, line, true);
        snprintf(line, sizeof line, "%s_bucket{model_name=\"m\",le=\"+Inf\"} 5", name[i]);
        assert_line(m, line, true);
        snprintf(line, sizeof line, "%s_count{model_name=\"m\"} 5", name[i]);
        assert_line(m, line, true);
        snprintf(line, sizeof line, "%s_sum{model_name=\"m\"} 1280.002002", name[i]);
        assert_line(m, line, true);
    }
    metrics_free(m);
}

/* Fault: a tally that is added to the wrong bucket, or twice. */
static void tally_is_the_same(void **state)
{
    (void)state;
    struct metrics *one = fresh(), *all = fresh();
    struct metrics_tally t = {0};
    for (int64_t v = 0; v < 20000000; v = v * 2 + 37) {
        metrics_observe(one, METRIC_inter_token, 0, v);
        metrics_tally(&t, METRIC_inter_token, v);
    }
    metrics_tally_add(all, METRIC_inter_token, 0, &t);
    const struct metrics_text text = {.model = "m"};
    struct buf a = text_of(one, &text), b = text_of(all, &text);
    assert_string_equal(a.data, b.data);
    assert_non_null(strstr(a.data, "tandem_inter_token_latency_seconds_bucket{model_name=\"m\","
                                   "le=\"0.0001\"} 2\n"));
    buf_release(&a);
    buf_release(&b);
    metrics_free(one);
    metrics_free(all);
}

/* Fault: what a client sends becomes a label, so that the text grows without end. */
static void labels_are_closed(void **state)
{
    (void)state;
    struct metrics *m = fresh();
    metrics_http(m, 1, "GET", 200, 5);
    metrics_http(m, 1, "GET", 204, 5);
    metrics_http(m, 0, "DELETE", 405, 5);
    metrics_http(m, -1, "BREW", 404, 5);
    metrics_http(m, 3, "get", 599, 5);
    assert_line(m,
                "tandem_http_requests_total{route=\"/v1/models/{id}\",method=\"GET\","
                "status=\"2xx\"} 2",
                true);
    assert_line(m,
                "tandem_http_requests_total{route=\"/v1/models\",method=\"DELETE\","
                "status=\"4xx\"} 1",
                true);
    assert_line(m, "tandem_http_requests_total{route=\"other\",method=\"other\",status=\"4xx\"} 1",
                true);
    assert_line(m, "tandem_http_requests_total{route=\"other\",method=\"other\",status=\"5xx\"} 1",
                true);
    const struct metrics_text text = {.model = "m"};
    struct buf before = text_of(m, &text);
    for (int i = 0; i < 100000; i++) {
        char method[16];
        snprintf(method, sizeof method, "M%d", i);
        metrics_http(m, -1, method, 404, 5);
        metrics_http(m, i + 3, method, 404 + 600 * (i & 1), 5);
    }
    struct buf after = text_of(m, &text);
    assert_in_range(after.len, before.len, before.len + 500); /* digits of counts */
    buf_release(&before);
    buf_release(&after);
    metrics_free(m);
}

/* Fault: a model's name that ends its label early and forges a line. */
static void names_are_escaped(void **state)
{
    (void)state;
    struct metrics *m = fresh();
    struct buf info;
    buf_init(&info, 1000);
    metrics_label(&info, "block_size", "32");
    metrics_label(&info, "odd", "a\"b\\c\nd");
    const struct metrics_text text = {.model = "x\"} 1\nforged 1",
                                      .info = {[METRIC_cache_config] = info.data}};
    metrics_set(m, METRIC_cache_config, 0, 1);
    struct buf out = text_of(m, &text);
    assert_null(strstr(out.data, "\nforged"));
    assert_non_null(
        strstr(out.data, "tandem_requests_running{model_name=\"x\\\"} 1\\nforged 1\"} 0\n"));
    assert_non_null(
        strstr(out.data, "vllm:cache_config_info{block_size=\"32\",odd=\"a\\\"b\\\\c\\nd\"} 1\n"));
    assert_null(strstr(out.data, "tandem_build_info{")); /* no text: left out */
    buf_release(&out);
    buf_release(&info);
    metrics_free(m);
}

/* Fault: a family told twice, a counter without _total, a help that breaks its line. */
static void rows_are_sound(void **state)
{
    (void)state;
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *r = &metric_row[i];
        const char *const name[] = {r->name, r->alias};
        for (int k = 0; k < 2; k++) {
            if (!*name[k])
                continue;
            size_t n = strlen(name[k]);
            bool is_total = n > 6 && strcmp(name[k] + n - 6, "_total") == 0;
            assert_int_equal(is_total, r->kind == METRIC_COUNTER);
            for (int j = 0; j < i; j++) {
                assert_string_not_equal(name[k], metric_row[j].name);
                assert_string_not_equal(name[k], metric_row[j].alias);
            }
        }
        assert_string_not_equal(r->name, r->alias);
        assert_null(strpbrk(r->help, "\\\n"));
        assert_int_equal(r->kind == METRIC_HISTOGRAM, r->measure->n_bound > 0);
        for (size_t b = 1; b < r->measure->n_bound; b++)
            assert_true(r->measure->bound[b] > r->measure->bound[b - 1]);
    }
}

/* Fault: a wrong field of /proc, or a wrong unit. */
static void process_is_read(void **state)
{
    (void)state;
    struct metrics *m = fresh();
    metrics_process(m);
    int64_t now_us = clock_wall_us(), began_us = metrics_get(m, METRIC_start_time, 0);
    assert_in_range(began_us, now_us - 3600000000LL, now_us + 50000);
    int64_t fds = metrics_get(m, METRIC_fds, 0), rss = metrics_get(m, METRIC_rss, 0);
    assert_in_range(fds, 1, 100);
    assert_in_range(rss, 100 << 10, 8LL << 30);
    assert_true(metrics_get(m, METRIC_vsize, 0) > rss);
    assert_true(metrics_get(m, METRIC_max_fds, 0) > fds);
    FILE *f = fopen("/proc/self/stat", "r");
    assert_non_null(f);
    metrics_process(m);
    assert_int_equal(metrics_get(m, METRIC_fds, 0), fds + 1);
    assert_int_equal(metrics_get(m, METRIC_start_time, 0), began_us);
    fclose(f);
    metrics_free(m);
}

enum { N_THREAD = 4, N_EACH = 20000 };

static void *adder(void *arg)
{
    for (int i = 0; i < N_EACH; i++) {
        metrics_http(arg, i % 3, "POST", 200, i);
        metrics_connection(arg, i & 1 ? -1 : 1);
        metrics_key(arg, i % 2 ? "odd" : "even", 200, 1, 0);
    }
    return NULL;
}

/* Fault: additions of several threads that lose one another. */
static void threads_add_up(void **state)
{
    (void)state;
    struct metrics *m = fresh();
    pthread_t thread[N_THREAD];
    for (int i = 0; i < N_THREAD; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, adder, m), 0);
    for (int i = 0; i < N_THREAD; i++)
        pthread_join(thread[i], NULL);
    int64_t n = 0;
    for (size_t at = 0; at < 3; at++)
        n += metrics_get(m, METRIC_http_time, at);
    assert_int_equal(n, N_THREAD * N_EACH);
    assert_int_equal(metrics_get(m, METRIC_http_connections, 0), 0);
    assert_int_equal(metrics_get(m, METRIC_http_accepted, 0), N_THREAD * N_EACH / 2);
    for (size_t at = 0; at < 2; at++)
        assert_int_equal(metrics_get(m, METRIC_key_prompt_tokens, at), N_THREAD * N_EACH / 2);
    metrics_free(m);
}

/* Fault: a key's numbers under another's name, a name with cells twice, more names than there is
 * room for. */
static void keys_have_their_own(void **state)
{
    (void)state;
    struct metrics *m = fresh();
    char name[32];
    assert_line(m, "tandem_key_requests_total{key=\"other\"} 0", false);
    metrics_key(m, "ann", 200, 7, 3);
    metrics_key(m, "ben", 429, 0, 0);
    metrics_key(m, "ann", 503, 5, 0);
    assert_line(m, "tandem_key_requests_total{key=\"ann\"} 2", true);
    assert_line(m, "tandem_key_refused_total{key=\"ann\"} 1", true);
    assert_line(m, "tandem_key_prompt_tokens_total{key=\"ann\"} 12", true);
    assert_line(m, "tandem_key_generation_tokens_total{key=\"ann\"} 3", true);
    assert_line(m, "tandem_key_refused_total{key=\"ben\"} 1", true);
    assert_line(m, "tandem_key_prompt_tokens_total{key=\"ben\"} 0", true);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "key %d", i);
        metrics_key(m, name, 200, 1, 1);
    }
    assert_line(m, "tandem_key_requests_total{key=\"key 61\"} 1", true);
    assert_line(m, "tandem_key_requests_total{key=\"key 62\"} 1", false);
    assert_line(m, "tandem_key_requests_total{key=\"other\"} 938", true);
    assert_line(m, "tandem_key_requests_total{key=\"ann\"} 2", true);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_in_buckets), cmocka_unit_test(tally_is_the_same),
        cmocka_unit_test(labels_are_closed), cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(rows_are_sound),    cmocka_unit_test(threads_add_up),
        cmocka_unit_test(process_is_read),   cmocka_unit_test(keys_have_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
