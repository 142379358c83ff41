/* SPDX-License-Identifier: Apache-2.0
 *
 * Models that are entered again without the rows of their jobs. What is not known of a job stays
 * open: it has ended, and shows the model that it made.
 */
#include <string.h>

#include "server/store/store_own.h"

static int put_job(struct store *s, const struct job_tuned *t, bool is_shared, struct err *e)
{
    struct job found, j = {.id = t->job,
                           .owner = t->owner,
                           .model = t->base,
                           .training_file = "file-not-known",
                           .tuned_model = t->is_checkpoint ? NULL : t->name,
                           .result_files = "[]",
                           .state = JOB_SUCCEEDED,
                           .created = t->created,
                           .started = t->created,
                           .finished = t->created,
                           .trained_tokens = -1,
                           .step = t->step,
                           .n_step = t->step,
                           .is_shared = is_shared};
    struct arena a;
    arena_init(&a, 0);
    int rc = store_job_add(s, &j, NULL, NULL, NULL, 0, &a, &found, e);
    arena_release(&a);
    return rc;
}

int store_tuned_enter(struct store *s, const struct job_tuned *t, bool is_shared, struct err *e)
{
    bool has;
    if (store_has(s, "SELECT 1 FROM job WHERE id = ?", t->job, &has, e) ||
        (!has && put_job(s, t, is_shared, e)))
        return -1;
    return store_tuned_add(s, t, e);
}
