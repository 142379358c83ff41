/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/files. The bytes of an upload are taken by server/desk/upload.h; here the row is made, behind
 * the file: what a crash leaves between the two is a file that nobody can name.
 */
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "engine/base/log.h"
#include "server/data/data_dir.h"
#include "server/desk/page.h"
#include "server/desk/upload.h"
#include "server/http/route.h"

enum { FILES_LIMIT = 10000, PROOF_BYTES = 64 << 20 };

static enum errand_end tell_file(struct errand *t, const struct file_row *f)
{
    struct jout j = jout_on(&t->out);
    file_row_write(&j, f);
    return ERRAND_DONE;
}

/* The file of the path, if it is the asker's and its time is not over. */
static enum errand_end find(struct errand *t, struct file_row *f, struct api_error *e)
{
    struct err why = ERR_INIT;
    const char *id = t->ask->param;
    int rc = store_file_get(desk_store(t->desk), t->ask->who->name, id, &t->arena, f, &why);
    if (!rc && f->expires && f->expires <= (int64_t)time(NULL))
        rc = err_set(&why, ERR_NOT_FOUND, "no such file: %.64s", id);
    return rc ? errand_fail(&why, e) : ERRAND_DONE;
}

/* ---- uploading ----------------------------------------------------------------------------- */

static enum errand_end add(struct errand *t, struct upload *u, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct file_row f;
    if (upload_row(u, &f, e))
        return ERRAND_FAILED;
    f.owner = t->ask->who->name;
    if (errand_quota(t, f.bytes, "file", e))
        return ERRAND_FAILED;
    if (!upload_commit(u, &why) && !store_file_add(desk_store(t->desk), &f, &why)) {
        upload_entered(u);
        return tell_file(t, &f);
    }
    /* under its name it may lie all the same, when only the folder could not be synced */
    struct err unheard = ERR_INIT;
    data_remove(store_dir(desk_store(t->desk)), DATA_FILES, f.id, &unheard);
    return errand_fail(&why, e);
}

/* Who reads that it was refused may send the next at once: it must not be in the way any more. */
static enum errand_end work_add(struct errand *t, struct api_error *e)
{
    struct upload *u = call_intake(t->call);
    enum errand_end end = add(t, u, e);
    if (end == ERRAND_FAILED)
        upload_refuse(u);
    return end;
}

void route_file_add(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_add);
}

/* ---- the others ---------------------------------------------------------------------------- */

static int look(struct errand *t, const struct store_page *page, struct arena *a, void **row,
                size_t *n, bool *more, struct err *e)
{
    struct file_row *f = NULL;
    int rc = store_file_list(desk_store(t->desk), t->ask->who->name, t->purpose, page, a, &f, n,
                             more, e);
    *row = f;
    return rc;
}

static int put(struct errand *t, struct jout *j, const void *row, struct err *e)
{
    (void)t;
    (void)e;
    file_row_write(j, row);
    return 0;
}

static enum errand_end work_list(struct errand *t, struct api_error *e)
{
    static const struct page_kind files = {.size = sizeof(struct file_row),
                                           .id = offsetof(struct file_row, id),
                                           .look = look,
                                           .put = put};
    return page_walk(t, &files, e);
}

void route_files(struct call *c)
{
    struct errand *t = errand_new(c);
    struct api_error e;
    if (!t)
        return;
    t->purpose = call_query(c, "purpose");
    if (page_read(c, t, FILES_LIMIT, FILES_LIMIT, &e))
        errand_refuse(t, &e);
    else
        errand_send(t, work_list);
}

static enum errand_end work_get(struct errand *t, struct api_error *e)
{
    struct file_row f;
    return find(t, &f, e) ? ERRAND_FAILED : tell_file(t, &f);
}

void route_file(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_get);
}

static enum errand_end altered(const struct err *why, struct api_error *e)
{
    if (why->code != ERR_CORRUPT)
        return errand_fail(why, e);
    log_event(LOG_ERROR, "a file is altered", LOG_TEXT("why", why->msg));
    api_fail(e, 500, "file_altered", "id", "%s", why->msg);
    e->no_retry = true;
    return ERRAND_FAILED;
}

static int open_content(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct file_row *f = ARENA_NEW(&t->arena, struct file_row);
    if (find(t, f, e))
        return -1;
    t->proof = ARENA_NEW(&t->arena, struct store_proof);
    t->type =
        strcmp(f->purpose, "fine-tune-results") == 0 ? "text/csv" : "application/octet-stream";
    return store_proof_begin(desk_store(t->desk), f, t->proof, &why) ? altered(&why, e) : 0;
}

/* It is looked at whole before its first byte goes out, a part in each turn, since others wait for
 * the desk as well. */
static enum errand_end work_content(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (!t->proof && open_content(t, e))
        return ERRAND_FAILED;
    int rc = store_proof_read(t->proof, PROOF_BYTES, &why);
    return rc < 0 ? altered(&why, e) : rc ? ERRAND_AGAIN : ERRAND_DONE;
}

void route_file_content(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_content);
}

static enum errand_end work_drop(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct file_row f;
    if (find(t, &f, e))
        return ERRAND_FAILED;
    if (desk_file_drop(t->desk, &f, &why))
        return errand_fail(&why, e);
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    jout_put_str(&j, "id", f.id);
    jout_put_str(&j, "object", "file");
    jout_put_bool(&j, "deleted", true);
    jout_close(&j, '}');
    return ERRAND_DONE;
}

void route_file_drop(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_drop);
}
