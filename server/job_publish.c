/* SPDX-License-Identifier: Apache-2.0
 *
 * From what was trained to a model that answers: a PEFT directory, a row, a switch in the
 * registry, in this order, so that a kill between two of them leaves nothing that is half there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/aside.h"
#include "engine/base/fs.h"
#include "engine/base/sha256.h"
#include "engine/engine.h"
#include "engine/train/adapter_dir.h"
#include "server/jobs_own.h"

enum { NAME_BYTES = 256, CSV_BYTES_MAX = 64 << 20, PAGE = 1000, TAIL = 8 };

static void name_of(const struct job_run *r, int64_t step, char name[NAME_BYTES])
{
    const char *id = r->job.id;
    size_t n = strlen(id);
    int at = snprintf(name, NAME_BYTES, "ft:%.100s:tandem:%s:%s", r->job.model,
                      r->job.suffix ? r->job.suffix : "", id + (n > TAIL ? n - TAIL : 0));
    if (step >= 0)
        snprintf(name + at, (size_t)(NAME_BYTES - at), ":ckpt-step-%" PRId64, step);
}

int job_publish(struct job_run *r, int64_t step, const char *metrics, struct err *e)
{
    const struct jobs_options *o = &r->jobs->opt;
    char name[NAME_BYTES], dir[STORE_ID_BYTES + 32], id[STORE_ID_BYTES];
    struct job_tuned t = {.id = id,
                          .name = name,
                          .owner = r->job.owner,
                          .job = r->job.id,
                          .base = r->job.model,
                          .dir = dir,
                          .metrics = metrics,
                          .step = step < 0 ? r->job.step : step,
                          .created = (int64_t)time(NULL),
                          .is_checkpoint = step >= 0};
    name_of(r, step, name);
    store_id(step >= 0 ? "ftckpt_" : "ftmodel_", id);
    snprintf(dir, sizeof dir, step < 0 ? "%s" : "%s-step-%" PRId64, r->job.id, step);
    char *path = jobs_path(o->dir, "adapters", dir);
    int rc = fs_remove_tree(path, e) ||
             adapter_dir_write(path, trainer_subject(tuning_trainer(r->tuning)), r->job.model, e) ||
             store_tuned_add(o->store, &t, e) || engine_adapter_load(o->engine, name, path, e);
    free(path);
    if (!rc && step < 0)
        r->job.tuned_model = arena_strdup(r->arena, name);
    return rc ? -1 : 0;
}

int job_drop_checkpoints(struct job_run *r, size_t keep, struct err *e)
{
    const struct jobs_options *o = &r->jobs->opt;
    struct store_page page = {.limit = PAGE};
    struct job_tuned *list;
    size_t n, seen = 0;
    bool more;
    if (store_tuned_list(o->store, r->job.owner, r->job.id, &page, r->arena, &list, &n, &more, e))
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!list[i].is_checkpoint || seen++ < keep)
            continue;
        char *path = jobs_path(o->dir, "adapters", list[i].dir);
        struct err unknown = ERR_INIT; /* one that could not be served is not in the registry */
        int rc = store_tuned_drop(o->store, list[i].owner, list[i].name, e);
        if (!rc) {
            engine_adapter_drop(o->engine, list[i].name, &unknown);
            rc = fs_remove_tree(path, e);
        }
        free(path);
        if (rc)
            return -1;
    }
    return 0;
}

/* ---- the result file ----------------------------------------------------------------------- */

static int collect(struct job_run *r, struct buf *csv, struct err *e)
{
    struct store_page page = {.limit = PAGE, .ascending = true};
    struct job_event *list;
    size_t n;
    bool more = true;
    job_csv_head(csv);
    while (more) {
        if (store_event_list(r->jobs->opt.store, r->job.id, &page, r->arena, &list, &n, &more, e))
            return -1;
        for (size_t i = 0; i < n; i++)
            job_csv_line(list[i].data, csv);
        if (n)
            page.after = list[n - 1].id;
    }
    return buf_check(csv, "the result file", e);
}

static int put_file(struct job_run *r, const struct buf *csv, struct err *e)
{
    const struct jobs_options *o = &r->jobs->opt;
    char id[STORE_ID_BYTES], sha[SHA256_TEXT_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct file_row f = {.id = id,
                         .owner = r->job.owner,
                         .purpose = "fine-tune-results",
                         .name = "step_metrics.csv",
                         .sha256 = sha,
                         .bytes = (int64_t)csv->len,
                         .created = (int64_t)time(NULL)};
    /* named after the job: a kill between here and the job's end makes the same file again */
    const char *tail = strchr(r->job.id, '-');
    snprintf(id, sizeof id, "file-%s", tail ? tail + 1 : r->job.id);
    sha256_of(csv->data, csv->len, digest);
    sha256_text(digest, sha);
    char *path = jobs_path(o->dir, "files", id);
    int rc = aside_put(path, csv->data, csv->len, e);
    if (!rc && store_file_add(o->store, &f, e))
        rc = e->code == ERR_EXISTS ? 0 : -1;
    free(path);
    r->job.result_files = arena_printf(r->arena, "[\"%s\"]", id);
    return rc ? -1 : 0;
}

int job_write_result(struct job_run *r, struct err *e)
{
    struct buf csv;
    buf_init(&csv, CSV_BYTES_MAX);
    int rc = collect(r, &csv, e) || put_file(r, &csv, e);
    buf_release(&csv);
    return rc ? -1 : 0;
}
