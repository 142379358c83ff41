/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs on a served model, without HTTP: the life of a job in rows and events, its end for every bad
 * file, pause, cancel, a server that stops in between, and that what was tuned answers.
 */
#include "tests/server/jobs/world.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "engine/base/fs.h"
#include "engine/serve/resident.h"

enum { EVENTS_MAX = 4096 };

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

/* The job's file of steps, or of rows. */
static char *result_of(struct world *w, const char *id, bool rows)
{
    struct buf b;
    struct err e = ERR_INIT;
    struct job j = get(w, id);
    char file[2][STORE_ID_BYTES] = {"", ""};
    assert_int_equal(sscanf(j.result_files, "[\"%39[^\"]\",\"%39[^\"]\"]", file[0], file[1]), 2);
    char *path = jobs_path(w->dir, "files", file[rows]);
    buf_init(&b, 1 << 20);
    assert_good(fs_read(path, &b, &e), &e);
    free(path);
    return buf_take(&b);
}

/* Each example stands once in each epoch, and the mean of a step's rows is its loss (batches of one
 * row here). */
static void check_rows(struct world *w, const char *id, int64_t n_row, int64_t n_epoch)
{
    char *rows = result_of(w, id, true), *steps = result_of(w, id, false);
    const char *r = strchr(rows, '\n') + 1, *s = strchr(steps, '\n') + 1;
    int64_t seen[4][12] = {{0}};
    assert_int_equal(strncmp(rows, "step,epoch,example,tokens,trained_tokens,loss\n", 46), 0);
    for (int64_t i = 0; i < n_row * n_epoch;
         i++, r = strchr(r, '\n') + 1, s = strchr(s, '\n') + 1) {
        long long step, epoch, example, n, n_learn;
        double loss, step_loss;
        assert_int_equal(
            sscanf(r, "%lld,%lld,%lld,%lld,%lld,%lf", &step, &epoch, &example, &n, &n_learn, &loss),
            6);
        assert_int_equal(sscanf(s, "%*d,%lf", &step_loss), 1);
        assert_int_equal(step, i + 1);
        assert_int_equal(epoch, i / n_row + 1);
        assert_true(example >= 1 && example <= n_row && n > n_learn && n_learn > 0);
        assert_int_equal(seen[epoch - 1][example - 1]++, 0);
        assert_true(loss - step_loss < 1e-5 && step_loss - loss < 1e-5);
    }
    assert_int_equal(*r, 0);
    free(rows);
    free(steps);
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
    char *csv = result_of(w, "ftjob-whole", false);
    int lines = 0;
    for (char *p = csv; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, j.n_step + 1);
    /* the same seed: the same file, byte for byte */
    put_job(w, "ftjob-again", "file-1", 4);
    wait_for(w, "ftjob-again", ENDS, 0);
    for (int rows = 0; rows < 2; rows++) {
        char *first = result_of(w, "ftjob-whole", rows), *again = result_of(w, "ftjob-again", rows);
        assert_string_equal(first, again);
        free(first);
        free(again);
    }
    free(csv);
    check_rows(w, "ftjob-whole", 12, 4);
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

/* The event that has these words; its data as JSON. */
static json_t *data_of(struct world *w, const char *id, const char *words)
{
    size_t n;
    struct job_event *list = events(w, id, &n);
    for (size_t i = 0; i < n; i++)
        if (strstr(list[i].message, words))
            return json_loads(list[i].data, 0, NULL);
    fail_msg("no event %s", words);
    return NULL;
}

static void check_examples(struct world *w, const char *id, const char *words, int64_t a, int64_t b)
{
    json_t *data = data_of(w, id, words), *list = json_object_get(data, "examples");
    assert_int_equal(json_integer_value(json_object_get(data, "count")), 2);
    assert_int_equal(json_integer_value(json_array_get(list, 0)), a);
    assert_int_equal(json_integer_value(json_array_get(list, 1)), b);
    json_decref(data);
}

/* Faults: a row that is dropped, cut or useless, and nobody says so, or says another; one that is
 * trained all the same. */
static void odd_rows(struct world *w, const char *id, int64_t long_rows)
{
    struct err e = ERR_INIT;
    struct job found, j = {.id = id,
                           .owner = "me",
                           .model = "tiny",
                           .fingerprint = engine_info(w->engine)->fingerprint,
                           .training_file = "file-odd",
                           .result_files = "[]",
                           .hyper = {.n_epochs = 1,
                                     .max_length = 20,
                                     .long_rows = long_rows,
                                     .schedule = HYPER_COSINE,
                                     .weight_decay = 0.1,
                                     .lora_dropout = 0.1,
                                     .use_rslora = true,
                                     .checkpoint_steps = 3,
                                     .row_logprobs = true,
                                     .target_modules = "q_proj,down_proj"},
                           .created = (int64_t)time(NULL),
                           .trained_tokens = -1};
    assert_good(store_job_add(w->store, &j, NULL, NULL, "", 0, &w->arena, &found, &e), &e);
    jobs_wake(w->jobs);
    j = wait_for(w, id, ENDS, 0);
    assert_int_equal(j.state, JOB_SUCCEEDED);
    check_examples(w, id, "nothing to learn", 2, 9);
    check_examples(w, id, long_rows == HYPER_CUT ? "were cut at 20" : "are left out", 4, 7);
    assert_int_equal(j.n_step, long_rows == HYPER_CUT ? 10 : 8);
    if (!has_event(w, id, "Checkpoint created at step 3"))
        fail_msg("no checkpoint between epochs");
    char *rows = result_of(w, id, true);
    bool has_cut = strstr(rows, ",7,20,") != NULL;
    assert_true(has_cut == (long_rows == HYPER_CUT));
    assert_non_null(strstr(rows, "loss,logprobs\n"));
    free(rows);
}

static void odd_rows_are_named(void **state)
{
    struct world *w = *state;
    struct buf b;
    buf_init(&b, 1 << 16);
    for (int i = 1; i <= 12; i++)
        buf_printf(&b,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":"
                   "\"assistant\",\"content\":\"%s\",\"weight\":%d}]}\n",
                   i == 4 || i == 7 ? "one two three four five six seven eight nine ten" : "y",
                   i != 2 && i != 9);
    put_file(w, "file-odd", b.data);
    buf_release(&b);
    odd_rows(w, "ftjob-cut", HYPER_CUT);
    odd_rows(w, "ftjob-refuse", HYPER_REFUSE);
}

static bool is_there(struct world *w, const char *folder, const char *name)
{
    char *path = jobs_path(w->dir, folder, name);
    bool is = access(path, F_OK) == 0;
    free(path);
    return is;
}

static bool goes(struct world *w, const char *folder, const char *name)
{
    for (int i = 0; i < WAIT_MS && is_there(w, folder, name); i++)
        usleep(1000);
    return !is_there(w, folder, name);
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
    for (int rows = 0; rows < 2; rows++) {
        char *a = result_of(w, "ftjob-straight", rows), *b = result_of(w, "ftjob-broken", rows);
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    assert_true(goes(w, "checkpoints", "ftjob-straight")); /* an ended job's training state */
    put_rows(w, "file-long", 5000);                        /* minutes: it does not end by itself */
    put_job(w, "ftjob-paused", "file-long", 40);
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

static void put_full(struct world *w, const char *id, const char *file)
{
    struct err e = ERR_INIT;
    struct job found, j = {.id = id,
                           .owner = "me",
                           .model = "tiny",
                           .fingerprint = engine_info(w->engine)->fingerprint,
                           .training_file = file,
                           .result_files = "[]",
                           .hyper = {.n_epochs = 2, .training_type = HYPER_FULL},
                           .created = (int64_t)time(NULL),
                           .trained_tokens = -1};
    assert_good(store_job_add(w->store, &j, NULL, NULL, "", 0, &w->arena, &found, &e), &e);
    jobs_wake(w->jobs);
}

/* Faults: a full training that changes the weights that are served, or whose result is an adapter,
 * is not there, or is said to answer; one that a stopped server loses. */
static void full_training(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    const struct model *m = engine_resident(w->engine)->model;
    void *before = malloc(m->block_bytes);
    memcpy(before, m->block, m->block_bytes);
    put_rows(w, "file-1", 12);
    put_full(w, "ftjob-full", "file-1");
    wait_for(w, "ftjob-full", ENDS, 5);
    jobs_end(w);
    jobs_begin(w);
    struct job j = wait_for(w, "ftjob-full", ENDS, 0);
    assert_int_equal(j.state, JOB_SUCCEEDED);
    assert_memory_equal(before, m->block, m->block_bytes);
    free(before);
    assert_true(has_event(w, "ftjob-full", "models/ftjob-full of the data directory"));
    assert_false(has_event(w, "ftjob-full", "Checkpoint created"));
    assert_null(engine_adapter_get(w->engine, j.tuned_model));
    char *path = jobs_path(w->dir, "models", "ftjob-full");
    struct model_dir dir;
    assert_good(model_dir_init(&dir, path, &e), &e);
    assert_non_null(dir.tokenizer_path);
    free(path);
    model_dir_release(&dir);
    put_full(w, "ftjob-full2", "file-1"); /* straight: the same losses */
    wait_for(w, "ftjob-full2", ENDS, 0);
    char *a = result_of(w, "ftjob-full", true), *b = result_of(w, "ftjob-full2", true);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

/* Faults: a job that is begun and does not fit; a choice that is not shown; a plan without figures.
 */
static void memory_is_planned(void **state)
{
    struct world *w = *state;
    put_rows(w, "file-1", 12);
    put_job(w, "ftjob-any", "file-1", 1);
    struct job j = wait_for(w, "ftjob-any", ENDS, 0);
    assert_int_equal(j.hyper.activation_checkpointing, HYPER_OFF);
    json_t *data = data_of(w, "ftjob-any", "Memory: "), *m = json_object_get(data, "memory");
    int64_t again = json_integer_value(json_object_get(m, "total_with_checkpointing"));
    assert_true(again > 0 && again < json_integer_value(json_object_get(m, "total")));
    json_decref(data);
    jobs_end(w);
    w->train_memory = again;
    jobs_begin(w);
    put_job(w, "ftjob-less", "file-1", 1);
    j = wait_for(w, "ftjob-less", ENDS, 0);
    assert_int_equal(j.state, JOB_SUCCEEDED);
    assert_int_equal(j.hyper.activation_checkpointing, HYPER_ON);
    char *a = result_of(w, "ftjob-any", true), *b = result_of(w, "ftjob-less", true);
    assert_string_equal(a, b);
    free(a);
    free(b);
    jobs_end(w);
    w->train_memory = again - 1;
    jobs_begin(w);
    put_job(w, "ftjob-none", "file-1", 1);
    j = wait_for(w, "ftjob-none", ENDS, 0);
    assert_int_equal(j.state, JOB_FAILED);
    assert_string_equal(j.error_code, "not_enough_memory");
    assert_non_null(strstr(j.error_message, " MB"));
    assert_false(has_event(w, "ftjob-none", "started"));
}

/* From here on the one training that runs leaves nothing; what another one had is back first. */
static void leave_nothing(struct world *w)
{
    struct jobs_memory *m = &w->jobs->memory;
    for (bool is_alone = false; !is_alone; usleep(1000)) {
        pthread_mutex_lock(&w->jobs->lock);
        is_alone = m->n == 1;
        if (is_alone)
            m->all = m->taken;
        pthread_mutex_unlock(&w->jobs->lock);
    }
}

static void wait_for_event(struct world *w, const char *id, const char *words)
{
    for (int i = 0; i < WAIT_MS && !has_event(w, id, words); i++)
        usleep(1000);
    assert_true(has_event(w, id, words));
}

static void cancel(struct world *w, const char *id)
{
    struct err e = ERR_INIT;
    assert_good(store_job_ask(w->store, "me", id, true, false, &e), &e);
    assert_int_equal(wait_for(w, id, ENDS, 0).state, JOB_CANCELLED);
}

/* Faults: a job that is begun in memory that another has, or fails for it, or waits when there is
 * enough again; a server that does not stop for one that waits. */
static void memory_is_shared(void **state)
{
    struct world *w = *state;
    jobs_end(w);
    w->at_once = 3;
    jobs_begin(w);
    put_rows(w, "file-1", 12);
    put_rows(w, "file-long", 5000);
    put_job_of(w, "ftjob-long", "file-long", NULL,
               &(struct job_hyper){.n_epochs = 50, .batch_size = 1, .lora_rank = 4});
    wait_for(w, "ftjob-long", ENDS, 1);
    put_job(w, "ftjob-beside", "file-1", 1);
    assert_int_equal(wait_for(w, "ftjob-beside", ENDS, 0).state, JOB_SUCCEEDED);
    leave_nothing(w);
    put_job(w, "ftjob-waits", "file-1", 1);
    wait_for_event(w, "ftjob-waits", "waits for memory");
    put_job(w, "ftjob-behind", "file-1", 1);
    assert_int_equal(get(w, "ftjob-waits").state, JOB_QUEUED);
    jobs_end(w);
    jobs_begin(w);
    wait_for(w, "ftjob-long", ENDS, get(w, "ftjob-long").step + 1);
    wait_for(w, "ftjob-waits", ENDS, 0);
    wait_for(w, "ftjob-behind", ENDS, 0);
    leave_nothing(w);
    put_job(w, "ftjob-next", "file-1", 1);
    wait_for_event(w, "ftjob-next", "waits for memory");
    assert_int_equal(get(w, "ftjob-long").state, JOB_RUNNING);
    cancel(w, "ftjob-long");
    assert_int_equal(wait_for(w, "ftjob-next", ENDS, 0).state, JOB_SUCCEEDED);
    assert_int_equal(get(w, "ftjob-waits").state, JOB_SUCCEEDED);
    assert_int_equal(get(w, "ftjob-behind").state, JOB_SUCCEEDED);
}

static void *drop_all(void *arg)
{
    struct world *w = arg;
    struct jobs j = {.opt = {.engine = w->engine, .store = w->store, .dir = w->dir}};
    struct arena a;
    struct job_run r = {.jobs = &j, .job = {.id = "ftjob-twice", .owner = "me"}, .arena = &a};
    struct err e = ERR_INIT;
    arena_init(&a, 0);
    int rc = job_drop_checkpoints(&r, 0, 0, &e);
    arena_release(&a);
    return rc ? arg : NULL;
}

/* Faults: a job that fails since somebody deleted an old checkpoint that it was about to. */
static void checkpoints_are_deleted_twice(void **state)
{
    enum { N = 100 };
    struct world *w = *state;
    struct err e = ERR_INIT;
    char name[32];
    struct job_tuned t = {.id = name,
                          .name = name,
                          .owner = "me",
                          .job = "ftjob-twice",
                          .base = "tiny",
                          .dir = name,
                          .is_checkpoint = true};
    pthread_t other;
    put_job(w, "ftjob-twice", "file-none", 1);
    wait_for(w, "ftjob-twice", ENDS, 0);
    for (t.step = 0; t.step < N; t.step++) {
        snprintf(name, sizeof name, "ftckpt_%d", (int)t.step);
        assert_good(store_tuned_add(w->store, &t, &e), &e);
    }
    assert_int_equal(pthread_create(&other, NULL, drop_all, w), 0);
    assert_null(drop_all(w));
    void *failed;
    assert_int_equal(pthread_join(other, &failed), 0);
    assert_null(failed);
    assert_err(store_tuned_drop(w->store, "me", name, &e), &e, ERR_NOT_FOUND, "no such model");
}

/* Faults: an event behind the last one of a job that ended while its stage began. */
static void nothing_is_said_behind_the_end(void **state)
{
    struct world *w = *state;
    struct jobs j = {.opt = {.engine = w->engine, .store = w->store, .dir = w->dir}};
    struct job_run r = {.jobs = &j, .arena = &w->arena};
    struct err e = ERR_INIT;
    size_t before, behind;
    put_job(w, "ftjob-late", "file-none", 1);
    r.job = wait_for(w, "ftjob-late", ENDS, 0);
    events(w, "ftjob-late", &before);
    r.job.state = JOB_VALIDATING; /* as it was read before */
    assert_err(job_validate(&r, &e), &e, ERR_BUSY, "another state");
    events(w, "ftjob-late", &behind);
    assert_int_equal(before, behind);
    assert_int_equal(get(w, "ftjob-late").state, JOB_FAILED);
}

static void leave(struct world *w, const char *folder, const char *name)
{
    struct err e = ERR_INIT;
    char *path = jobs_path(w->dir, folder, name);
    assert_good(fs_mkdirs(path, &e), &e);
    free(path);
}

/* Faults: a tuned model that is gone after a restart, or of another base and not said to be; one
 * that stays in its folder for ever since a server was killed between its row and its files; a
 * folder that goes and was somebody else's. */
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
    leave(w, "adapters", "ftjob-back-step-9");
    leave(w, "models", "ftjob-back-step-2");
    leave(w, "adapters", "ftjob-of-another-store");
    leave(w, "adapters", "mine");
    jobs_begin(w);
    assert_true(goes(w, "adapters", "ftjob-back-step-9"));
    assert_true(goes(w, "models", "ftjob-back-step-2"));
    assert_true(is_there(w, "adapters", "ftjob-back"));
    assert_true(is_there(w, "adapters", "ftjob-of-another-store"));
    assert_true(is_there(w, "adapters", "mine"));
    struct adapter *a = engine_adapter_get(w->engine, name);
    assert_non_null(a);
    adapter_unref(a);
    jobs_end(w);
    engine_end(w);
    engine_begin(w);
    struct err e = ERR_INIT;
    sqlite3 *db;
    char *path = jobs_path(w->dir, ".", "store.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    free(path);
    static const char other[] =
        "UPDATE tuned SET fingerprint = iif(fingerprint LIKE '0%', 'f', '0') "
        "|| substr(fingerprint, 2)";
    assert_int_equal(sqlite3_exec(db, other, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    jobs_begin(w);
    assert_null(engine_adapter_get(w->engine, name));
    assert_true(engine_adapter_why(w->engine, name, &e));
    assert_non_null(strstr(e.msg, "was trained over the base"));
}

/* Fault: a tuned model that cannot be served here and is gone, or whose job never ends. */
static void one_that_cannot_be_served_is_kept(void **state)
{
    struct world *w = *state;
    put_rows(w, "file-1", 12);
    put_job_of(w, "ftjob-kept", "file-1", NULL,
               &(struct job_hyper){.n_epochs = 1, .lr_multiplier = 20, .lora_rank = 32});
    assert_int_equal(wait_for(w, "ftjob-kept", ENDS, 0).state, JOB_SUCCEEDED);
    wait_for_event(w, "ftjob-kept", "it is kept, but not served now: ");
    assert_true(is_there(w, "adapters", "ftjob-kept"));
}

static int count_looks(unsigned kind, void *ctx, void *statement, void *text)
{
    int *n = ctx;
    (void)kind;
    (void)text;
    *n += strstr(sqlite3_sql(statement), "SELECT state FROM job WHERE id") != NULL;
    return 0;
}

/* Fault: each thread of many that wake looks through all folders again. */
static void one_thread_looks_for_what_is_left(void **state)
{
    enum { LEFT = 100, LOOKS = 8 };
    struct world *w = *state;
    struct err e = ERR_INIT;
    int n = 0;
    jobs_free(w->jobs);
    for (int i = 0; i < LEFT; i++) {
        char name[32];
        snprintf(name, sizeof name, "ftjob-%d", i); /* of no job that is known: they stay */
        char *path = jobs_path(w->dir, "checkpoints", name);
        assert_good(fs_mkdirs(path, &e), &e);
        free(path);
    }
    store_free(w->store);
    w->store = store_new(w->dir, &e);
    assert_good(w->store ? 0 : -1, &e);
    sqlite3_trace_v2(w->store->db, SQLITE_TRACE_STMT, count_looks, &n);
    w->jobs = jobs_new(
        &(struct jobs_options){
            .engine = w->engine, .store = w->store, .dir = w->dir, .at_once = 32},
        &e);
    assert_good(w->jobs ? 0 : -1, &e);
    put_rows(w, "file-1", 12);
    put_job(w, "ftjob-one", "file-1", 1);
    assert_int_equal(wait_for(w, "ftjob-one", ENDS, 0).state, JOB_SUCCEEDED);
    jobs_free(w->jobs);
    w->jobs = NULL;
    assert_in_range(n, LEFT, LEFT * LOOKS);
}

/* Fault: a server that stops once a long file is read to its end. */
static void long_files_are_left(void **state)
{
    struct world *w = *state;
    put_rows(w, "file-long", 200000); /* seconds to read, far more than to be told to stop */
    put_job(w, "ftjob-long", "file-long", 1);
    wait_for_event(w, "ftjob-long", "Validating");
    jobs_end(w);
    jobs_begin(w);
    assert_int_equal(get(w, "ftjob-long").state, JOB_VALIDATING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_life, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_files, setup, teardown),
        cmocka_unit_test_setup_teardown(odd_rows_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(stopped_and_gone_on, setup, teardown),
        cmocka_unit_test_setup_teardown(full_training, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_is_planned, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_is_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(checkpoints_are_deleted_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_said_behind_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(tuned_models_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_served_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(one_thread_looks_for_what_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(long_files_are_left, setup, teardown),
    };
    api_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
