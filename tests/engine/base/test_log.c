/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the log: one a call, whatever stands in the fields.
 */
#include "tests/lib/test.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"

static struct {
    pthread_mutex_t lock;
    char line[LOG_LINE_BYTES + 1];
    size_t n;
    int n_line, n_bad;
} got = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void sink(void *ctx, const char *line, size_t n)
{
    (void)ctx;
    pthread_mutex_lock(&got.lock);
    memcpy(got.line, line, n);
    got.line[n] = 0;
    got.n = n;
    got.n_line++;
    got.n_bad += !n || line[n - 1] != '\n';
    for (size_t i = 0; i + 1 < n; i++)
        got.n_bad += line[i] < 0x20 || line[i] > 0x7e;
    pthread_mutex_unlock(&got.lock);
}

static void start(enum log_level least, enum log_format format)
{
    log_configure(least, format, sink, NULL);
    got.n_line = got.n_bad = 0;
    got.line[0] = 0;
}

/* Everything behind the time. */
static const char *behind_time(void)
{
    assert_true(got.n > 25 && got.line[23] == 'Z');
    return got.line + 25;
}

/* Faults: a form that people or machines do not expect; errno lost. */
static void forms(void **state)
{
    (void)state;
    start(LOG_INFO, LOG_AS_TEXT);
    errno = 7;
    log_event(LOG_WARN, "low on memory", LOG_TEXT("who", "k v"), LOG_INT("n", -5),
              LOG_REAL("part", 0.25), LOG_BOOL("ok", false));
    assert_int_equal(errno, 7);
    assert_string_equal(behind_time(), "warn  low on memory who=\"k v\" n=-5 part=0.25 ok=false\n");
    log_event(LOG_INFO, "started");
    assert_string_equal(behind_time(), "info  started\n");

    start(LOG_INFO, LOG_AS_JSON);
    log_event(LOG_ERROR, "failed", LOG_TEXT("who", NULL), LOG_INT("n", INT64_MIN),
              LOG_REAL("part", NAN), LOG_BOOL("ok", true));
    cJSON *j = cJSON_Parse(got.line);
    assert_non_null(j);
    assert_string_equal(cJSON_GetObjectItem(j, "level")->valuestring, "error");
    assert_string_equal(cJSON_GetObjectItem(j, "event")->valuestring, "failed");
    assert_string_equal(cJSON_GetObjectItem(j, "who")->valuestring, "");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(j, "part")));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(j, "ok")));
    assert_non_null(strstr(got.line, "\"n\":-9223372036854775808,"));
    cJSON_Delete(j);
    assert_int_equal(got.n_bad, 0);
}

/* Fault: a client forges a line, ends a string, or drives the terminal of whoever reads it. */
static void hostile_text_stays_one_line(void **state)
{
    (void)state;
    static const char evil[] = "a\r\nb \x1b]0;x\x07\"\\\x7f\xc3\xa9\x80";
    static const char want[] = "a\\r\\nb \\x1b]0;x\\x07\\\"\\\\\\x7f\\xc3\\xa9\\x80\\x00";
    start(LOG_INFO, LOG_AS_TEXT);
    log_event(LOG_INFO, "request", LOG_BYTES("path", evil, sizeof evil)); /* with its zero byte */
    char line[256];
    snprintf(line, sizeof line, "info  request path=\"%s\"\n", want);
    assert_string_equal(behind_time(), line);

    start(LOG_INFO, LOG_AS_JSON);
    log_event(LOG_INFO, "request", LOG_BYTES("path", evil, sizeof evil));
    cJSON *j = cJSON_Parse(got.line);
    assert_non_null(j);
    assert_string_equal(cJSON_GetObjectItem(j, "path")->valuestring, want);
    cJSON_Delete(j);
    assert_int_equal(got.n_bad, 0);
}

/* Faults: a cap off by one; a line past its end; JSON that is cut in the middle of a field. */
static void long_text_is_cut(void **state)
{
    (void)state;
    char text[2000];
    memset(text, '\x01', sizeof text);
    text[sizeof text - 1] = 0;
    start(LOG_INFO, LOG_AS_TEXT);
    log_event(LOG_INFO, "x", LOG_BYTES("a", "0123456789", 10), LOG_TEXT("b", text));
    assert_non_null(strstr(got.line, "\\x01...\"\n"));
    memset(text, 'y', sizeof text - 1);
    log_event(LOG_INFO, "x", LOG_BYTES("a", text, 256));
    assert_null(strstr(got.line, "..."));
    log_event(LOG_INFO, "x", LOG_BYTES("a", text, 257));
    assert_non_null(strstr(got.line, "y...\"\n"));

    memset(text, '"', sizeof text - 1);
    for (int format = LOG_AS_TEXT; format <= LOG_AS_JSON; format++) {
        start(LOG_INFO, (enum log_format)format);
        struct log_field field[21] = {{0}};
        for (int i = 0; i < 20; i++)
            field[i] = log_text("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"
                                "lmnopqrstuvwxyz",
                                text);
        log_write(LOG_INFO, "full", field);
        assert_int_equal(got.n_bad, 0);
        assert_true(got.n <= LOG_LINE_BYTES);
        assert_non_null(strstr(got.line, "cut"));
        cJSON *j = cJSON_Parse(got.line);
        assert_true(format == LOG_AS_TEXT || cJSON_IsTrue(cJSON_GetObjectItem(j, "cut")));
        cJSON_Delete(j);
    }
}

/* Fault: a level that is off is written, or one that is on is not. */
static void levels(void **state)
{
    (void)state;
    enum log_level level;
    start(LOG_WARN, LOG_AS_TEXT);
    log_event(LOG_INFO, "quiet");
    assert_int_equal(got.n_line, 0);
    log_event(LOG_WARN, "loud");
    log_event(LOG_ERROR, "loud");
    assert_int_equal(got.n_line, 2);
    assert_true(log_is_on(LOG_ERROR) && !log_is_on(LOG_DEBUG));
    start(LOG_OFF, LOG_AS_TEXT);
    log_event(LOG_ERROR, "nothing");
    assert_int_equal(got.n_line, 0);
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse("loud", &level), -1);
}

static void *writer(void *arg)
{
    for (int i = 0; i < 500; i++)
        log_event(LOG_INFO, "tick", LOG_TEXT("who", arg), LOG_INT("i", i));
    return NULL;
}

/* Fault: lines of two threads mixed. */
static void threads_do_not_mix(void **state)
{
    (void)state;
    pthread_t t[3];
    char who[] = "a thread";
    start(LOG_INFO, LOG_AS_JSON);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, writer, who);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(got.n_line, 1500);
    assert_int_equal(got.n_bad, 0);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(hostile_text_stays_one_line),
        cmocka_unit_test(long_text_is_cut),
        cmocka_unit_test(levels),
        cmocka_unit_test(threads_do_not_mix),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
