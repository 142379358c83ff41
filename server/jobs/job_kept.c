/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of jobs that were validated and wait for their turn: what was read and tokenized then is
 * what is trained. Bounded in all; where there are more the oldest go, as do those of a server that
 * ended, and their jobs' files are read again.
 *
 * Thread: any of the jobs'.
 */
#include <stdio.h>
#include <string.h>

#include "server/jobs/jobs_own.h"

enum { KEPT_BYTES_MAX = 16 << 20 };

static size_t bytes_of(const struct tune_rows *data, const struct tune_rows *valid)
{
    return tune_rows_info(data).bytes + (valid ? tune_rows_info(valid).bytes : 0);
}

static void remove_at(struct jobs *j, size_t i)
{
    j->n_kept_bytes -= bytes_of(j->kept.at[i].data, j->kept.at[i].valid);
    memmove(&j->kept.at[i], &j->kept.at[i + 1], (j->kept.n - i - 1) * sizeof *j->kept.at);
    j->kept.n--;
}

static void drop_first(struct jobs *j)
{
    struct jobs_kept k = j->kept.at[0];
    remove_at(j, 0);
    tune_rows_free(k.data);
    tune_rows_free(k.valid);
}

void job_keep_rows(struct job_run *r)
{
    struct jobs *j = r->jobs;
    struct jobs_kept k = {.data = r->data, .valid = r->valid};
    size_t bytes = bytes_of(k.data, k.valid);
    if (bytes > KEPT_BYTES_MAX)
        return;
    snprintf(k.id, sizeof k.id, "%s", r->job.id);
    r->data = r->valid = NULL;
    pthread_mutex_lock(&j->lock);
    while (j->n_kept_bytes + bytes > KEPT_BYTES_MAX)
        drop_first(j);
    vec_push(&j->kept, k);
    j->n_kept_bytes += bytes;
    pthread_mutex_unlock(&j->lock);
}

bool job_take_rows(struct job_run *r)
{
    struct jobs *j = r->jobs;
    bool is_there = false;
    pthread_mutex_lock(&j->lock);
    for (size_t i = 0; i < j->kept.n && !is_there; i++) {
        if (strcmp(j->kept.at[i].id, r->job.id) != 0)
            continue;
        r->data = j->kept.at[i].data;
        r->valid = j->kept.at[i].valid;
        remove_at(j, i);
        is_there = true;
    }
    pthread_mutex_unlock(&j->lock);
    return is_there;
}

void jobs_kept_release(struct jobs *j)
{
    while (j->kept.n)
        drop_first(j);
    vec_release(&j->kept);
}
