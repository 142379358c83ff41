/* SPDX-License-Identifier: Apache-2.0
 *
 * Creations of jobs, and what is shown of them. Faults: a bound that is not checked or names
 * another field, a sub-object of another method that is refused, a required field that is missing,
 * a number that the store does not give back as it was.
 */
#include "api/job.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

static struct arena arena;

static int parse(const char *body, struct job_ask *ask, struct api_error *e)
{
    memset(e, 0, sizeof *e);
    return job_ask_parse(body, strlen(body), &arena, ask, e);
}

#define LEAST "\"model\":\"m\",\"training_file\":\"file-1\""

static void good(void **state)
{
    struct job_ask ask;
    struct api_error e;
    (void)state;
    assert_int_equal(parse("{" LEAST "}", &ask, &e), 0);
    assert_false(ask.has_seed);
    assert_int_equal(ask.job.hyper.n_epochs, 0);
    assert_int_equal(
        parse("{" LEAST ",\"seed\":2147483647,\"suffix\":\"mine-1\",\"validation_file\":null,"
              "\"hyperparameters\":{\"n_epochs\":\"auto\",\"batch_size\":4},"
              "\"method\":{\"type\":\"supervised\",\"dpo\":{\"hyperparameters\":{\"beta\":9}},"
              "\"reinforcement\":{\"grader\":{}},\"supervised\":{\"hyperparameters\":"
              "{\"n_epochs\":50,\"learning_rate_multiplier\":0.5}}},"
              "\"integrations\":[],\"metadata\":{\"a\":\"b\"},\"later\":1}",
              &ask, &e),
        0);
    assert_true(ask.has_seed && ask.job.seed == 2147483647);
    assert_int_equal(ask.job.hyper.n_epochs, 50);
    assert_int_equal(ask.job.hyper.batch_size, 4);
    assert_true(ask.job.hyper.lr_multiplier == 0.5);
    assert_string_equal(ask.job.metadata, "{\"a\":\"b\"}");
    assert_non_null(strstr(ask.ignored, "later"));
}

static void bad(void **state)
{
    static const struct {
        const char *field, *param;
    } row[] = {
        {"\"hyperparameters\":{\"n_epochs\":0}", "hyperparameters.n_epochs"},
        {"\"hyperparameters\":{\"n_epochs\":51}", "hyperparameters.n_epochs"},
        {"\"hyperparameters\":{\"n_epochs\":\"abc\"}", "hyperparameters.n_epochs"},
        {"\"hyperparameters\":{\"batch_size\":0}", "hyperparameters.batch_size"},
        {"\"hyperparameters\":{\"batch_size\":257}", "hyperparameters.batch_size"},
        {"\"hyperparameters\":{\"learning_rate_multiplier\":0}",
         "hyperparameters.learning_rate_multiplier"},
        {"\"hyperparameters\":[]", "hyperparameters"},
        {"\"method\":{\"type\":\"supervised\",\"supervised\":{\"hyperparameters\":"
         "{\"n_epochs\":1.5}}}",
         "method.supervised.hyperparameters.n_epochs"},
        {"\"method\":{\"type\":\"dpo\"}", "method.type"},
        {"\"method\":{}", "method.type"},
        {"\"suffix\":\"\"", "suffix"},
        {"\"suffix\":\"a:b\"", "suffix"},
        {"\"suffix\":\"0123456789012345678901234567890123456789012345678901234567890123x\"",
         "suffix"},
        {"\"seed\":-1", "seed"},
        {"\"seed\":2147483648", "seed"},
        {"\"metadata\":{\"a\":1}", "metadata"},
        {"\"integrations\":[{\"type\":\"wandb\"}]", "integrations"},
        {"\"validation_file\":\"\"", "validation_file"},
    };
    struct job_ask ask;
    struct api_error e;
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char body[512];
        snprintf(body, sizeof body, "{" LEAST ",%s}", row[i].field);
        if (parse(body, &ask, &e) == 0 || e.status != 400 || strcmp(e.param, row[i].param) != 0)
            fail_msg("%s: status %d, param '%s'", row[i].field, e.status, e.param);
    }
    assert_true(parse("{\"model\":\"m\"}", &ask, &e) && strcmp(e.param, "training_file") == 0);
    assert_true(parse("{\"training_file\":\"f\"}", &ask, &e) && strcmp(e.param, "model") == 0);
    char many[2048] = "{" LEAST ",\"metadata\":{";
    for (int i = 0; i < 17; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s\"k%d\":\"v\"", i ? "," : "",
                 i);
    snprintf(many + strlen(many), sizeof many - strlen(many), "}}");
    assert_true(parse(many, &ask, &e) && strcmp(e.param, "metadata") == 0);
}

static void shown(void **state)
{
    static const char *const required[] = {
        "id",     "created_at",     "error",           "finished_at",     "fine_tuned_model",
        "model",  "object",         "hyperparameters", "organization_id", "result_files",
        "status", "trained_tokens", "training_file",   "validation_file", "seed"};
    struct job job = {.id = "ftjob-1",
                      .model = "m\"",
                      .training_file = "file-1",
                      .result_files = "[\"file-2\"]",
                      .hyper = {.n_epochs = 3, .lr_multiplier = 0.1},
                      .trained_tokens = -1,
                      .created = 7};
    struct job_event v = {
        .id = "ftevent-1", .level = "info", .type = "metrics", .message = "s", .data = "{\"a\":1}"};
    struct buf b;
    (void)state;
    buf_init(&b, 1 << 16);
    struct jout j = jout_on(&b);
    job_write(&j, &job);
    json_t *got = json_loads(b.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(got);
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!json_object_get(got, required[i]))
            fail_msg("%s is missing", required[i]);
    json_decref(got);
    buf_clear(&b);
    j = jout_on(&b);
    job_event_write(&j, &v);
    got = json_loads(b.data, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(got, "data"), "a")), 1);
    json_decref(got);
    buf_release(&b);
}

static void numbers_come_back(void **state)
{
    struct job_hyper h = {3, 7, 1.0 / 3, 16, 0.1}, got;
    struct err e = ERR_INIT;
    struct buf b;
    (void)state;
    buf_init(&b, 1000);
    job_hyper_write(&h, &b);
    assert_good(job_hyper_read(b.data, &got, &e), &e);
    assert_true(got.lr_multiplier == h.lr_multiplier && got.lora_alpha == h.lora_alpha);
    assert_true(got.n_epochs == 3 && got.batch_size == 7 && got.lora_rank == 16);
    assert_err(job_hyper_read("[", &got, &e), &e, ERR_CORRUPT, "no object");
    buf_release(&b);
}

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good, setup, teardown),
        cmocka_unit_test_setup_teardown(bad, setup, teardown),
        cmocka_unit_test_setup_teardown(shown, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_come_back, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
