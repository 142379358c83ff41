/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine, a store and jobs of each test's own, without HTTP: setup and teardown for
 * cmocka_unit_test_setup_teardown.
 */
#ifndef TESTS_SERVER_JOBS_WORLD_H
#define TESTS_SERVER_JOBS_WORLD_H

#include "tests/lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/sha256.h"
#include "engine/engine.h"
#include "server/jobs/jobs_own.h"
#include "server/store/store_own.h"

enum { WAIT_MS = 60000 };

struct world {
    char *dir;
    struct engine *engine;
    struct store *store;
    struct jobs *jobs;
    int64_t train_memory, at_once;
    struct arena arena;
};

static inline void jobs_begin(struct world *w)
{
    struct err e = ERR_INIT;
    w->store = store_new(w->dir, &e);
    assert_good(w->store ? 0 : -1, &e);
    w->jobs = jobs_new(&(struct jobs_options){.engine = w->engine,
                                              .store = w->store,
                                              .dir = w->dir,
                                              .min_examples = 10,
                                              .at_once = w->at_once,
                                              .train_memory = w->train_memory},
                       &e);
    assert_good(w->jobs ? 0 : -1, &e);
}

static inline void jobs_end(struct world *w)
{
    jobs_free(w->jobs);
    store_free(w->store);
}

static inline void engine_begin(struct world *w)
{
    struct err e = ERR_INIT;
    struct engine_options o = {.model = "tests/golden/models/llama_tied",
                               .name = "tiny",
                               .load.threads = 2,
                               .max_adapters = 16,
                               .max_lora_rank = 16,
                               .kv_bytes = 8 << 20};
    w->engine = engine_new(&o, &e);
    assert_good(w->engine ? 0 : -1, &e);
    assert_good(engine_start(w->engine, &e), &e);
}

static inline void engine_end(struct world *w)
{
    engine_stop(w->engine);
    engine_free(w->engine);
}

static inline int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    w->dir = test_dir_new();
    arena_init(&w->arena, 0);
    engine_begin(w);
    jobs_begin(w);
    *state = w;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *w = *state;
    jobs_end(w);
    engine_end(w);
    arena_release(&w->arena);
    test_dir_free(w->dir);
    free(w);
    return 0;
}

static inline void put_file(struct world *w, const char *id, const char *text)
{
    struct err e = ERR_INIT;
    uint8_t digest[SHA256_BYTES];
    char sum[SHA256_TEXT_BYTES];
    sha256_of(text, strlen(text), digest);
    struct file_row f = {.id = id,
                         .owner = "me",
                         .purpose = "fine-tune",
                         .name = "rows.jsonl",
                         .sha256 = sha256_text(digest, sum),
                         .bytes = (int64_t)strlen(text),
                         .created = 1};
    char *path = jobs_path(w->dir, "files", id);
    assert_good(aside_put(path, text, strlen(text), &e), &e);
    assert_good(store_file_add(w->store, &f, &e), &e);
    free(path);
}

static inline void put_rows(struct world *w, const char *id, int n)
{
    struct buf b;
    buf_init(&b, 32 << 20);
    for (int i = 0; i < n; i++)
        buf_printf(&b,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"What is number %d?\"},"
                   "{\"role\":\"assistant\",\"content\":\"It is %d.\"}]}\n",
                   i, i * 7 % 10);
    put_file(w, id, b.data);
    buf_release(&b);
}

static inline void put_job_of(struct world *w, const char *id, const char *file, const char *valid,
                              const struct job_hyper *hyper)
{
    struct err e = ERR_INIT;
    struct job found, j = {.id = id,
                           .owner = "me",
                           .model = "tiny",
                           .fingerprint = engine_info(w->engine)->fingerprint,
                           .training_file = file,
                           .validation_file = valid,
                           .suffix = "s",
                           .result_files = "[]",
                           .hyper = *hyper,
                           .created = (int64_t)time(NULL),
                           .seed = 42,
                           .trained_tokens = -1};
    assert_good(store_job_add(w->store, &j, NULL, NULL, "", 0, &w->arena, &found, &e), &e);
    jobs_wake(w->jobs);
}

static inline void put_job(struct world *w, const char *id, const char *file, int64_t epochs)
{
    put_job_of(w, id, file, epochs > 3 ? file : NULL,
               &(struct job_hyper){.n_epochs = epochs, .lr_multiplier = 20, .lora_rank = 4});
}

static inline struct job get(struct world *w, const char *id)
{
    struct err e = ERR_INIT;
    struct job j;
    assert_good(store_job_get(w->store, "me", id, &w->arena, &j, &e), &e);
    return j;
}

/* Waits until the job is in one of the states, or has taken `step` steps. */
static inline struct job wait_for(struct world *w, const char *id, unsigned states, int64_t step)
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

#endif
