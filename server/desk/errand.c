/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP side of errands: made from a call, waited for, answered with.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/desk/desk_own.h"
#include "server/server.h"

enum { ARENA_BYTES = 256 << 20, OUT_BYTES = 48 << 20, READ_BYTES = 128 << 10, FILES_MAX = 100000 };

struct desk *desk_of(struct call *c, struct api_error *e)
{
    struct desk *d = server_desk(call_server(c));
    if (!d) {
        api_fail(e, 403, "no_data_dir", NULL,
                 "Files, batches, fine-tuning and kept responses are off: the server was started "
                 "without --data-dir.");
        return NULL;
    }
    if (desk_is_lost(d, e))
        return NULL;
    if (desk_is_open(d))
        return d;
    api_fail(e, 503, "loading", NULL, "The model is still being loaded.");
    e->retry_after_s = 1;
    return NULL;
}

struct errand *errand_new(struct call *c)
{
    struct api_error e;
    struct desk *d = desk_of(c, &e);
    if (!d) {
        call_error(c, &e);
        return NULL;
    }
    struct errand *t = xcalloc(1, sizeof *t);
    t->desk = d;
    t->call = c;
    t->ask = call_request(c);
    t->type = "application/json";
    t->end = ERRAND_AGAIN;
    arena_init(&t->arena, ARENA_BYTES);
    buf_init(&t->out, OUT_BYTES);
    buf_init(&t->ready, OUT_BYTES);
    return t;
}

static void errand_free(struct errand *t)
{
    if (t->let_go)
        t->let_go(t);
    if (t->proof)
        store_proof_end(t->proof);
    buf_release(&t->out);
    buf_release(&t->ready);
    arena_release(&t->arena);
    free(t);
}

void errand_refuse(struct errand *t, const struct api_error *e)
{
    call_error(t->call, e);
    errand_free(t);
}

/* ---- answering ----------------------------------------------------------------------------- */

static void send_error(struct call *c, const struct api_error *e)
{
    struct buf b;
    buf_init(&b, 1 << 16);
    buf_str(&b, "event: error\ndata: ");
    api_error_write(e, API_ERROR_PLAIN, &b);
    buf_str(&b, "\n\n");
    if (!b.failed)
        call_send(c, b.data, b.len);
    buf_release(&b);
}

static void step_stream(struct call *c, struct errand *t)
{
    if (!call_is_streaming(c) && t->end == ERRAND_FAILED) {
        call_error(c, &t->error);
        return;
    }
    call_stream(c, t->type);
    if (t->ready.len)
        call_send(c, t->ready.data, t->ready.len);
    buf_clear(&t->ready);
    if (t->end == ERRAND_AGAIN)
        return;
    if (t->end == ERRAND_FAILED)
        send_error(c, &t->error);
    call_end(c);
}

/* The file's next bytes; the client takes them before it is asked for more. What was cut short
 * meanwhile, or cannot be read, must not look whole. */
static void step_file(struct call *c, struct errand *t)
{
    char block[READ_BYTES];
    int64_t left = t->proof->file->bytes - t->n_sent;
    call_stream(c, t->type);
    ssize_t n = left ? read(t->proof->fd, block, left < READ_BYTES ? (size_t)left : READ_BYTES) : 0;
    if (left == 0) {
        call_end(c);
    } else if (n > 0) {
        call_send(c, block, (size_t)n);
        t->n_sent += n;
    } else {
        log_event(LOG_ERROR, "a file cannot be sent", LOG_TEXT("file", t->proof->file->id));
        call_cut(c);
    }
}

static void step(struct call *c, void *ctx)
{
    struct errand *t = ctx;
    struct err why = ERR_INIT;
    pthread_mutex_lock(&t->desk->lock);
    if (t->is_stream) {
        if (t->end != ERRAND_AGAIN || t->ready.len)
            step_stream(c, t);
        pthread_mutex_unlock(&t->desk->lock);
        return;
    }
    enum errand_end end = t->end;
    pthread_mutex_unlock(&t->desk->lock);
    if (end == ERRAND_AGAIN)
        return;
    if (end == ERRAND_DONE && t->proof) {
        step_file(c, t);
        return;
    }
    if (t->is_again)
        call_note(c, NULL, 0, 0);
    if (t->ignored)
        call_set_header(c, "x-tandem-ignored", t->ignored);
    if (end == ERRAND_DONE && !buf_check(&t->out, "the answer", &why)) {
        call_reply(c, 200, t->type, &t->out);
        return;
    }
    if (end == ERRAND_DONE)
        api_fail_err(&t->error, &why, NULL);
    call_error(c, &t->error);
}

static void gone(void *ctx)
{
    struct errand *t = ctx;
    atomic_store(&t->is_gone, true);
}

static void done(void *ctx)
{
    errand_free(ctx);
}

void errand_send(struct errand *t, enum errand_end (*work)(struct errand *, struct api_error *))
{
    t->work = work;
    call_wait(t->call,
              &(struct call_later){
                  .step = step, .gone = gone, .done = done, .ctx = t, .streams = t->is_stream});
    call_ref(t->call);
    desk_put(t->desk, t);
}

enum errand_end errand_fail(const struct err *why, struct api_error *e)
{
    if (why->code != ERR_NOT_FOUND) {
        log_event(LOG_ERROR, "errand failed", LOG_TEXT("why", why->msg));
        api_fail_err(e, why, NULL);
        return ERRAND_FAILED;
    }
    api_fail(e, 404, "not_found", "id", "%.400s", why->msg);
    return ERRAND_FAILED;
}

int errand_quota(struct errand *t, int64_t more, const char *param, struct api_error *e)
{
    struct store *s = desk_store(t->desk);
    struct err why = ERR_INIT;
    int64_t has = 0, n = 0, quota = desk_quota(t->desk, t->ask);
    if ((quota && store_file_bytes(s, t->ask->who->name, &has, &why)) ||
        store_file_count(s, t->ask->who->name, &n, &why))
        return api_fail_err(e, &why, param);
    if (n >= FILES_MAX)
        return api_fail(e, 400, "files_limit", param,
                        "This key has %lld files, and may have no more: delete some.",
                        (long long)n);
    return !quota || has + more <= quota
               ? 0
               : api_fail(
                     e, 400, "files_quota_exceeded", param,
                     "This key's files have %lld bytes, those of uploads in parts among them, and "
                     "may have %lld: %lld are wanted now; delete some.",
                     (long long)has, (long long)quota, (long long)more);
}

int errand_file(struct errand *t, const char *id, const char *purpose, const char *param,
                struct api_error *e)
{
    struct err why = ERR_INIT;
    struct file_row f;
    int rc = store_file_get(desk_store(t->desk), t->ask->who->name, id, &t->arena, &f, &why);
    if (rc && why.code != ERR_NOT_FOUND)
        return errand_fail(&why, e);
    if (rc || (f.expires && f.expires <= (int64_t)time(NULL)))
        return api_fail(e, 400, "file_not_found", param, "There is no file with this id.");
    if (strcmp(f.purpose, purpose) != 0)
        return api_fail(e, 400, "invalid_file_purpose", param,
                        "The file was uploaded with the purpose '%.32s'; '%s' is needed.",
                        f.purpose, purpose);
    return 0;
}
