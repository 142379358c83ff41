/* SPDX-License-Identifier: Apache-2.0
 *
 * What Weights & Biases answers, good and bad, and what is written for it. Catches: an answer that
 * is none and is taken; a path that a name leads out of; a line that no reader of JSON takes; a
 * number that is set twice and stands twice.
 */
#include "tests/lib/test.h"

#include <jansson.h>
#include <string.h>

#include "api/wandb.h"

static int read_run(const char *text, struct wandb_place *out, struct err *e)
{
    *e = (struct err)ERR_INIT;
    return wandb_read_run(text, strlen(text), out, e);
}

static void good_answers(void **state)
{
    (void)state;
    struct wandb_place p;
    struct err e;
    assert_good(
        read_run("{\"data\":{\"upsertBucket\":{\"bucket\":{\"historyLineCount\":12,\"project\":{"
                 "\"name\":\"p\",\"entity\":{\"name\":\"us\"}}}}}}",
                 &p, &e),
        &e);
    assert_string_equal(p.entity, "us");
    assert_string_equal(p.project, "p");
    assert_int_equal(p.n_line, 12);
    assert_good(
        read_run("{\"data\":{\"upsertBucket\":{\"bucket\":{\"historyLineCount\":null,\"project\":{"
                 "\"name\":\"p\",\"entity\":{\"name\":\"us\"}}}}}}",
                 &p, &e),
        &e);
    assert_int_equal(p.n_line, 0);
}

static void bad_answers(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "<html>",
        "[]",
        "{\"data\":null}",
        "{\"data\":{\"upsertBucket\":{\"bucket\":{\"project\":{\"name\":\"p\"}}}}}",
        "{\"data\":{\"upsertBucket\":{\"bucket\":{\"project\":{\"name\":\"\",\"entity\":{\"name\":\"u\"}}}}}}",
        "{\"errors\":[]}",
        "{\"errors\":[{\"message\":\"\"}]}"};
    struct wandb_place p;
    struct err e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(read_run(bad[i], &p, &e), 0);
        assert_true(*e.msg);
    }
    assert_int_not_equal(read_run("{\"errors\":[{\"message\":\"permission denied\"}]}", &p, &e), 0);
    assert_string_equal(e.msg, "permission denied");
}

/* Fault: a count of lines that overflows as soon as lines are counted on from it. */
static void no_run_has_so_many_lines(void **state)
{
    (void)state;
    static const struct {
        const char *n;
        bool is_good;
    } row[] = {{"4503599627370496", true},
               {"4503599627370497", false},
               {"9223372036854775807", false},
               {"-9223372036854775808", true},
               {"1e30", true}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct wandb_place p;
        struct err e;
        char text[256];
        snprintf(text, sizeof text,
                 "{\"data\":{\"upsertBucket\":{\"bucket\":{\"historyLineCount\":%s,\"project\":{"
                 "\"name\":\"p\",\"entity\":{\"name\":\"us\"}}}}}}",
                 row[i].n);
        assert_int_equal(!read_run(text, &p, &e), row[i].is_good);
        assert_true(!row[i].is_good || (p.n_line >= 0 && p.n_line <= INT64_C(1) << 52));
    }
}

static void names_stay_in_their_place(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4096);
    wandb_write_path(&(struct wandb_place){.entity = "../a b", .project = "p?q#"}, "ftjob-1", &b);
    assert_string_equal(b.data, "/files/..%2Fa%20b/p%3Fq%23/ftjob-1/file_stream");
    buf_release(&b);
}

static void lines(void **state)
{
    (void)state;
    struct wandb_numbers n = {0};
    struct wandb_when when = {.step = 3, .s = 1.5, .since_begin_s = 0.25};
    struct buf line, part;
    buf_init(&line, 1 << 16);
    buf_init(&part, 1 << 16);
    wandb_set(&n, "loss", 2);
    wandb_set(&n, "loss", 0.5);
    wandb_write_line(&n, &when, &line);
    assert_string_equal(line.data,
                        "\"{\\\"_step\\\":3,\\\"_timestamp\\\":1.5,\\\"_runtime\\\":0.25,"
                        "\\\"loss\\\":0.5}\"");
    wandb_write_part(
        &(struct wandb_part){.first = 7, .lines = line.data, .is_end = true, .has_failed = true},
        &part);
    json_t *v = json_loads(part.data, JSON_REJECT_DUPLICATES, NULL);
    json_t *file = json_object_get(json_object_get(v, "files"), "wandb-history.jsonl");
    assert_int_equal(json_integer_value(json_object_get(file, "offset")), 7);
    assert_int_equal(json_array_size(json_object_get(file, "content")), 1);
    assert_true(json_is_true(json_object_get(v, "complete")));
    assert_int_equal(json_integer_value(json_object_get(v, "exitcode")), 1);
    json_decref(v);
    buf_release(&line);
    buf_release(&part);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(good_answers),
        cmocka_unit_test(bad_answers),
        cmocka_unit_test(no_run_has_so_many_lines),
        cmocka_unit_test(names_stay_in_their_place),
        cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
