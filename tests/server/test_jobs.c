/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs on a served model, without HTTP: the life of a job in rows and events, its end for every bad
 * file, pause, cancel, a server that stops in between, and that what was tuned answers.
 */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/json.h"
#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/engine.h"
#include "server/jobs.h"
#include "server/store.h"

enum { EVENTS_MAX = 4096, WAIT_MS = 60000 };

struct world {
    char *dir;
    struct engine *engine;
    struct store *store;
    struct jobs *jobs;
    struct arena arena;
};

static void jobs_begin(struct world *w)
{
    struct err e = ERR_INIT;
    w->store = store_new(w->dir, &e);
    assert_good(w->store ? 0 : -1, &e);
    w->jobs = jobs_new(
        &(struct jobs_options){
            .engine = w->engine, .store = w->store, .dir = w->dir, .min_examples = 10},
        &e);
    assert_good(w->jobs ? 0 : -1, &e);
}

static void jobs_end(struct world *w)
{
    jobs_free(w->jobs);
    store_free(w->store);
}

static void engine_begin(struct world *w)
{
    struct err e = ERR_INIT;
    struct engine_options o = {.model = "tests/golden/models/llama_tied",
                               .name = "tiny",
                               .threads = 2,
                               .max_adapters = 16,
                               .max_lora_rank = 16,
                               .kv_bytes = 8 << 20};
    w->engine = engine_new(&o, &e);
    assert_good(w->engine ? 0 : -1, &e);
    assert_good(engine_start(w->engine, &e), &e);
}

static void engine_end(struct world *w)
{
    engine_stop(w->engine);
    engine_free(w->engine);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    w->dir = test_dir_new();
    arena_init(&w->arena, 0);
    engine_begin(w);
    jobs_begin(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    jobs_end(w);
    engine_end(w);
    arena_release(&w->arena);
    test_dir_free(w->dir);
    free(w);
    return 0;
}

static void put_file(struct world *w, const char *id, const char *text)
{
    struct err e = ERR_INIT;
    struct file_row f = {.id = id,
                         .owner = "me",
                         .purpose = "fine-tune",
                         .name = "rows.jsonl",
                         .sha256 = "",
                         .bytes = (int64_t)strlen(text),
                         .created = 1};
    char *path = jobs_path(w->dir, "files", id);
    assert_good(aside_put(path, text, strlen(text), &e), &e);
    assert_good(store_file_add(w->store, &f, &e), &e);
    free(path);
}

static void put_rows(struct world *w, const char *id, int n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < n; i++)
        buf_printf(&b,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"What is number %d?\"},"
                   "{\"role\":\"assistant\",\"content\":\"It is %d.\"}]}\n",
                   i, i * 7 % 10);
    put_file(w, id, b.data);
    buf_release(&b);
}

static void put_job(struct world *w, const char *id, const char *file, int64_t epochs)
{
    struct err e = ERR_INIT;
    struct job found, j = {.id = id,
                           .owner = "me",
                           .model = "tiny",
                           .training_file = file,
                           .validation_file = epochs > 3 ? file : NULL,
                           .suffix = "s",
                           .result_files = "[]",
                           .hyper = {.n_epochs = epochs, .lr_multiplier = 20, .lora_rank = 4},
                           .created = (int64_t)time(NULL),
                           .seed = 42,
                           .trained_tokens = -1};
    assert_good(store_job_add(w->store, &j, NULL, NULL, "", 0, &w->arena, &found, &e), &e);
    jobs_wake(w->jobs);
}

static struct job get(struct world *w, const char *id)
{
    struct err e = ERR_INIT;
    struct job j;
    assert_good(store_job_get(w->store, "me", id, &w->arena, &j, &e), &e);
    return j;
}

/* Waits until the job is in one of the states, or has taken `step` steps. */
static struct job wait_for(struct world *w, const char *id, unsigned states, int64_t step)
{
    for (int i = 0; i < WAIT_MS; i++) {
        struct job j = get(w, id);
        if ((states >> j.state & 1) || (step && j.step >= step))
            return j;
        usleep(1000);
    }
    fail_msg("%s: still %s", id, job_state_name(get(w, id).state));
    return get(w, id);
}

enum { ENDS = 1u << JOB_SUCCEEDED | 1u << JOB_FAILED | 1u << JOB_CANCELLED };

static struct job_event *events(struct world *w, const char *id, size_t *n)
{
    struct store_page page = {.limit = EVENTS_MAX, .ascending = true};
    struct job_event *list;
    struct err e = ERR_INIT;
    bool more;
    assert_good(store_event_list(w->store, id, &page, &w->arena, &list, n, &more, &e), &e);
    return list;
}

static bool has_event(struct world *w, const char *id, const char *words)
{
    size_t n;
    struct job_event *list = events(w, id, &n);
    for (size_t i = 0; i < n; i++)
        if (strstr(list[i].message, words))
            return true;
    return false;
}

static char *result_of(struct world *w, const char *id)
{
    struct buf b;
    struct err e = ERR_INIT;
    struct job j = get(w, id);
    char file[STORE_ID_BYTES] = "";
    assert_int_equal(sscanf(j.result_files, "[\"%39[^\"]\"]", file), 1);
    char *path = jobs_path(w->dir, "files", file);
    buf_init(&b, 1 << 20);
    assert_good(fs_read(path, &b, &e), &e);
    free(path);
    return buf_take(&b);
}

/* Faults: a stage that is left out, an event that is missing, an end without its parts. */
static void whole_life(void **state)
{
    struct world *w = *state;
    static const char *const messages[] = {"Validating training file: file-1 and validation file",
                                           "Files validated",
                                           "Fine-tuning job started",
                                           "Step 1/",
                                           "Checkpoint created at step",
                                           "New fine-tuned model created: ft:tiny:tandem:s:",
                                           "successfully completed"};
    put_rows(w, "file-1", 12);
    put_job(w, "ftjob-whole", "file-1", 4);
    struct job j = wait_for(w, "ftjob-whole", ENDS, 0);
    assert_int_equal(j.state, JOB_SUCCEEDED);
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        if (!has_event(w, "ftjob-whole", messages[i]))
            fail_msg("no event %s", messages[i]);
    assert_true(j.started && j.finished && j.trained_tokens > 0);
    assert_int_equal(j.step, j.n_step);
    assert_int_equal(j.hyper.batch_size, 1);
    struct adapter *a = engine_adapter_get(w->engine, j.tuned_model);
    assert_non_null(a);
    adapter_unref(a);
    char *csv = result_of(w, "ftjob-whole");
    int lines = 0;
    for (char *p = csv; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, j.n_step + 1);
    /* the same seed: the same file, byte for byte */
    put_job(w, "ftjob-again", "file-1", 4);
    wait_for(w, "ftjob-again", ENDS, 0);
    char *again = result_of(w, "ftjob-again");
    assert_string_equal(csv, again);
    free(csv);
    free(again);
}

/* Faults: a bad file that trains, or fails without its reason. */
static void bad_files(void **state)
{
    struct world *w = *state;
    put_rows(w, "file-few", 7);
    put_file(w, "file-text", "hello\n");
    put_file(w, "file-dpo", "{\"input\":{},\"preferred_output\":[],\"non_preferred_output\":[]}\n");
    struct buf b;
    buf_init(&b, 1 << 16);
    for (int i = 0; i < 12; i++)
        buf_str(&b, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\","
                    "\"content\":\"y\",\"weight\":0}]}\n");
    put_file(w, "file-barren", b.data);
    buf_release(&b);
    static const struct {
        const char *job, *file, *code, *words;
    } row[] = {
        {"ftjob-few", "file-few", "invalid_n_examples", "7 example(s)"},
        {"ftjob-text", "file-text", "invalid_training_file", "Example 1"},
        {"ftjob-dpo", "file-dpo", "invalid_file_format", "supervised"},
        {"ftjob-barren", "file-barren", "no_trainable_tokens", "No example"},
        {"ftjob-none", "file-none", "file_not_found", "file-none"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        put_job(w, row[i].job, row[i].file, 1);
        struct job j = wait_for(w, row[i].job, ENDS, 0);
        assert_int_equal(j.state, JOB_FAILED);
        assert_string_equal(j.error_code, row[i].code);
        assert_non_null(strstr(j.error_message, row[i].words));
        assert_string_equal(j.error_param, "training_file");
        assert_true(j.finished && !has_event(w, row[i].job, "started"));
    }
}

/* Faults: a server that stops and forgets; a job that goes on with other numbers; a pause that
 * never ends; a cancel that is not heard. */
static void stopped_and_gone_on(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    put_rows(w, "file-1", 12);
    put_job(w, "ftjob-straight", "file-1", 3);
    assert_int_equal(wait_for(w, "ftjob-straight", ENDS, 0).state, JOB_SUCCEEDED);
    put_job(w, "ftjob-broken", "file-1", 3);
    for (int64_t step = 3; step < 30; step += 9) {
        wait_for(w, "ftjob-broken", ENDS, step);
        jobs_end(w);
        jobs_begin(w);
    }
    assert_int_equal(wait_for(w, "ftjob-broken", ENDS, 0).state, JOB_SUCCEEDED);
    char *a = result_of(w, "ftjob-straight"), *b = result_of(w, "ftjob-broken");
    assert_string_equal(a, b);
    free(a);
    free(b);
    put_job(w, "ftjob-paused", "file-1", 40);
    wait_for(w, "ftjob-paused", ENDS, 2);
    assert_good(store_job_ask(w->store, "me", "ftjob-paused", false, true, &e), &e);
    struct job j = wait_for(w, "ftjob-paused", ENDS | 1u << JOB_PAUSED, 0);
    assert_int_equal(j.state, JOB_PAUSED);
    j.state = JOB_QUEUED;
    assert_good(store_job_move(w->store, &j, 1u << JOB_PAUSED, NULL, &e), &e);
    jobs_wake(w->jobs);
    wait_for(w, "ftjob-paused", ENDS, j.step + 3);
    assert_good(store_job_ask(w->store, "me", "ftjob-paused", true, false, &e), &e);
    assert_int_equal(wait_for(w, "ftjob-paused", ENDS, 0).state, JOB_CANCELLED);
    assert_err(store_job_ask(w->store, "me", "ftjob-paused", true, false, &e), &e, ERR_BUSY,
               "does not run");
}

/* Faults: a tuned model that is gone after a restart. */
static void tuned_models_come_back(void **state)
{
    struct world *w = *state;
    put_rows(w, "file-1", 12);
    put_job(w, "ftjob-back", "file-1", 2);
    struct job j = wait_for(w, "ftjob-back", ENDS, 0);
    char name[300];
    snprintf(name, sizeof name, "%s", j.tuned_model);
    jobs_end(w);
    engine_end(w);
    engine_begin(w);
    assert_null(engine_adapter_get(w->engine, name));
    jobs_begin(w);
    struct adapter *a = engine_adapter_get(w->engine, name);
    assert_non_null(a);
    adapter_unref(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_life, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_files, setup, teardown),
        cmocka_unit_test_setup_teardown(stopped_and_gone_on, setup, teardown),
        cmocka_unit_test_setup_teardown(tuned_models_come_back, setup, teardown),
    };
    api_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
