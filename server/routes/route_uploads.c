/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/uploads: files that come in parts. Each part is on the disk, with its row, before it is
 * acknowledged; a completion copies them into a file and enters that in one transaction with the
 * end of the upload. What an upload says that it will have is set aside of its key's quota from its
 * begin.
 */
#include <string.h>
#include <time.h>

#include "engine/base/log.h"
#include "engine/base/map.h"
#include "server/data/data_dir.h"
#include "server/desk/join.h"
#include "server/desk/upload.h"
#include "server/http/route.h"
#include "server/store/store_parts.h"

enum { UPLOADS_MAX = 1000, TURN_BYTES = 64 << 20 };

static enum errand_end tell(struct errand *t, const struct parts *p, const struct file_row *f)
{
    struct jout j = jout_on(&t->out);
    parts_write(&j, p, f);
    return ERRAND_DONE;
}

/* The upload of the path, if it is the asker's. */
static int find(struct errand *t, struct parts *p, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (store_parts_get(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena, p,
                        &why)) {
        errand_fail(&why, e);
        return -1;
    }
    if (p->state == PARTS_PENDING && p->expires <= (int64_t)time(NULL))
        p->state = PARTS_EXPIRED;
    return 0;
}

static int not_pending(const struct parts *p, struct api_error *e)
{
    return p->state == PARTS_EXPIRED
               ? api_fail(e, 400, "upload_expired", "upload_id",
                          "The upload has expired, an hour after its begin: begin another.")
               : api_fail(e, 400, "invalid_state", "upload_id", "The upload is %s already.",
                          p->state == PARTS_COMPLETED ? "completed" : "cancelled");
}

static int find_pending(struct errand *t, struct parts *p, struct api_error *e)
{
    if (find(t, p, e))
        return -1;
    return p->state == PARTS_PENDING ? 0 : not_pending(p, e);
}

static enum errand_end fail(const struct err *why, struct api_error *e)
{
    if (why->code == ERR_BUSY) {
        api_fail(e, 400, "invalid_state", "upload_id", "The upload is not pending any more.");
        return ERRAND_FAILED;
    }
    if (why->code != ERR_CORRUPT)
        return errand_fail(why, e);
    log_event(LOG_ERROR, "a part is altered", LOG_TEXT("why", why->msg));
    api_fail(e, 500, "file_altered", "part_ids", "%s", why->msg);
    e->no_retry = true;
    return ERRAND_FAILED;
}

/* ---- begun -------------------------------------------------------------------------------- */

static int check_count(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    int64_t n;
    if (store_parts_count(desk_store(t->desk), t->ask->who->name, &n, &why))
        return api_fail_err(e, &why, NULL);
    return n < UPLOADS_MAX ? 0
                           : api_fail(e, 429, "uploads_limit", NULL,
                                      "This API key has begun %d uploads within an hour, and may "
                                      "begin no more until one of them is an hour old.",
                                      UPLOADS_MAX);
}

static enum errand_end work_begin(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct parts p;
    char id[STORE_ID_BYTES];
    int64_t most = desk_options(t->desk)->file_bytes_max;
    if (parts_ask_parse(t->ask->body, t->ask->n_body, &t->arena, &p, e))
        return ERRAND_FAILED;
    if (p.bytes > most) {
        api_fail(e, 400, "file_too_large", "bytes", "Files may have at most %lld bytes here.",
                 (long long)most);
        return ERRAND_FAILED;
    }
    if (check_count(t, e) || errand_quota(t, p.bytes, "bytes", e))
        return ERRAND_FAILED;
    store_id("upload_", id);
    p.id = id;
    p.owner = t->ask->who->name;
    p.created = (int64_t)time(NULL);
    p.expires = p.created + PARTS_KEPT_S;
    if (store_parts_add(desk_store(t->desk), &p, &why))
        return errand_fail(&why, e);
    return tell(t, &p, NULL);
}

void route_parts_add(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_begin);
}

/* ---- a part ------------------------------------------------------------------------------- */

/* A part may come twice, since its answer was lost: so parts may have more bytes than they will be
 * used for, but not twice as many. */
static int check_room(struct errand *t, const struct parts *p, int64_t bytes, struct api_error *e)
{
    struct err why = ERR_INIT;
    int64_t n, sum, most = p->bytes + (p->bytes < PART_BYTES_MAX ? p->bytes : PART_BYTES_MAX);
    if (store_part_sum(desk_store(t->desk), p->id, &n, &sum, &why))
        return api_fail_err(e, &why, NULL);
    if (n >= PARTS_MAX)
        return api_fail(e, 400, "too_many_parts", "data", "An upload has at most %d parts.",
                        PARTS_MAX);
    if (sum + bytes > most)
        return api_fail(e, 400, "upload_too_large", "data",
                        "With this part the upload's parts have %lld bytes; the file is to have "
                        "%lld.",
                        (long long)(sum + bytes), (long long)p->bytes);
    int64_t had = sum > p->bytes ? sum : p->bytes;
    return sum + bytes > had ? errand_quota(t, sum + bytes - had, "bytes", e) : 0;
}

static enum errand_end add_part(struct errand *t, struct upload *u, struct api_error *e)
{
    struct err why = ERR_INIT, unheard = ERR_INIT;
    struct file_row f;
    struct parts p;
    if (upload_row(u, &f, e) || find_pending(t, &p, e))
        return ERRAND_FAILED;
    if (f.bytes == 0) {
        api_fail(e, 400, "invalid_value", "data", "A part has at least one byte.");
        return ERRAND_FAILED;
    }
    if (check_room(t, &p, f.bytes, e))
        return ERRAND_FAILED;
    const struct part part = {
        .id = f.id, .upload = p.id, .sha256 = f.sha256, .bytes = f.bytes, .created = f.created};
    if (!upload_commit(u, &why) && !store_part_add(desk_store(t->desk), &part, &why)) {
        upload_entered(u);
        struct jout j = jout_on(&t->out);
        part_write(&j, &part);
        return ERRAND_DONE;
    }
    data_remove(store_dir(desk_store(t->desk)), DATA_PARTS, f.id, &unheard);
    return fail(&why, e);
}

static enum errand_end work_part(struct errand *t, struct api_error *e)
{
    struct upload *u = call_intake(t->call);
    enum errand_end end = add_part(t, u, e);
    if (end == ERRAND_FAILED)
        upload_refuse(u);
    return end;
}

void route_part_add(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_part);
}

/* ---- completed ---------------------------------------------------------------------------- */

/* What a completion knows between its turns. */
struct completion {
    struct parts upload;
    struct parts_order order;
    struct part *part; /* all of the upload's */
    size_t n_part;
    struct join join;
    char id[STORE_ID_BYTES], asked[SHA256_TEXT_BYTES];
};

static void let_go(struct errand *t)
{
    struct completion *c = t->kept;
    join_release(&c->join);
}

/* Each part of `known` once. */
static int take_parts(const struct completion *c, struct map *known, const struct part **chosen,
                      int64_t *bytes, struct api_error *e)
{
    static struct part taken;
    for (size_t i = 0; i < c->order.n; i++) {
        chosen[i] = map_get_str(known, c->order.id[i]);
        if (!chosen[i])
            return api_fail(e, 400, "part_not_found", "part_ids",
                            "The upload has no part with the id '%.64s'.", c->order.id[i]);
        if (chosen[i] == &taken)
            return api_fail(e, 400, "invalid_value", "part_ids", "The part '%.64s' is there twice.",
                            c->order.id[i]);
        map_put_str(known, c->order.id[i], &taken);
        *bytes += chosen[i]->bytes;
    }
    return 0;
}

/* The parts in the order that was asked for. */
static int choose(struct errand *t, const struct completion *c, const struct part ***out,
                  struct api_error *e)
{
    int64_t bytes = 0;
    struct map known;
    *out = ARENA_ARRAY(&t->arena, const struct part *, c->order.n);
    map_init(&known);
    for (size_t i = 0; i < c->n_part; i++)
        map_put_str(&known, c->part[i].id, &c->part[i]);
    int rc = take_parts(c, &known, *out, &bytes, e);
    map_release(&known);
    if (rc)
        return -1;
    return bytes == c->upload.bytes
               ? 0
               : api_fail(e, 400, "size_mismatch", "part_ids",
                          "The parts have %lld bytes together; the upload was begun with %lld.",
                          (long long)bytes, (long long)c->upload.bytes);
}

/* A completion that is sent again, since its answer was lost, is told what it came to. */
static enum errand_end tell_again(struct errand *t, const struct parts *p, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct file_row f;
    int rc = store_file_get(desk_store(t->desk), t->ask->who->name, p->file, &t->arena, &f, &why);
    return rc && why.code != ERR_NOT_FOUND ? errand_fail(&why, e) : tell(t, p, rc ? NULL : &f);
}

/* Of an upload that may have ended meanwhile; ERRAND_AGAIN: it is pending. */
static enum errand_end look_at(struct errand *t, const struct parts *p, const char *asked,
                               struct api_error *e)
{
    if (p->state == PARTS_COMPLETED && strcmp(p->asked, asked) == 0)
        return tell_again(t, p, e);
    if (p->state == PARTS_PENDING)
        return ERRAND_AGAIN;
    not_pending(p, e);
    return ERRAND_FAILED;
}

/* Reads the body, and looks at the upload and its parts; ERRAND_AGAIN: they may be joined. */
static enum errand_end prepare(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct store *s = desk_store(t->desk);
    struct completion *c = ARENA_NEW(&t->arena, struct completion);
    const struct part **chosen = NULL;
    uint8_t digest[SHA256_BYTES];
    if (parts_order_parse(t->ask->body, t->ask->n_body, &t->arena, &c->order, e) ||
        find(t, &c->upload, e))
        return ERRAND_FAILED;
    sha256_of(t->ask->body, t->ask->n_body, digest);
    sha256_text(digest, c->asked);
    enum errand_end end = look_at(t, &c->upload, c->asked, e);
    if (end != ERRAND_AGAIN)
        return end;
    if (store_part_list(s, c->upload.id, &t->arena, &c->part, &c->n_part, &why))
        return errand_fail(&why, e);
    if (choose(t, c, &chosen, e))
        return ERRAND_FAILED;
    store_id("file-", c->id);
    c->upload.file = c->id;
    c->upload.asked = c->asked;
    t->kept = c;
    t->let_go = let_go;
    return join_begin(&c->join, t->desk, c->id, chosen, c->order.n, c->upload.bytes, &why)
               ? errand_fail(&why, e)
               : ERRAND_AGAIN;
}

static enum errand_end enter(struct errand *t, struct completion *c, struct api_error *e)
{
    struct err why = ERR_INIT, unheard = ERR_INIT;
    struct store *s = desk_store(t->desk);
    uint8_t digest[SHA256_BYTES];
    char sha[SHA256_TEXT_BYTES], md5[MD5_TEXT_BYTES];
    sha256_end(&c->join.hash, digest);
    md5_end(&c->join.md5, md5);
    if (*c->order.md5 && strcmp(c->order.md5, md5) != 0) {
        api_fail(e, 400, "checksum_mismatch", "md5",
                 "The parts make a file with the MD5 %s, not with the one that was given.", md5);
        return ERRAND_FAILED;
    }
    int64_t now = (int64_t)time(NULL);
    const struct file_row f = {.id = c->id,
                               .owner = c->upload.owner,
                               .purpose = c->upload.purpose,
                               .name = c->upload.name,
                               .sha256 = sha256_text(digest, sha),
                               .bytes = c->upload.bytes,
                               .created = now,
                               .expires = c->upload.keep_s ? now + c->upload.keep_s : 0};
    if (aside_commit(&c->join.file, &why) || store_parts_complete(s, &c->upload, &f, &why)) {
        data_remove(store_dir(s), DATA_FILES, f.id, &unheard);
        return fail(&why, e);
    }
    c->upload.state = PARTS_COMPLETED;
    if (desk_parts_drop(t->desk, c->upload.id, &why))
        log_event(LOG_WARN, "parts of an upload stay until the next start",
                  LOG_TEXT("why", why.msg));
    return tell(t, &c->upload, &f);
}

static enum errand_end work_complete(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct parts now;
    if (!t->kept) {
        enum errand_end end = prepare(t, e);
        if (end != ERRAND_AGAIN)
            return end;
    }
    struct completion *c = t->kept;
    if (find(t, &now, e))
        return ERRAND_FAILED;
    enum errand_end end = look_at(t, &now, c->asked, e);
    if (end != ERRAND_AGAIN)
        return end;
    int rc = join_step(&c->join, TURN_BYTES, &why);
    return rc < 0 ? fail(&why, e) : rc ? ERRAND_AGAIN : enter(t, c, e);
}

void route_parts_complete(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_complete);
}

/* ---- given up ----------------------------------------------------------------------------- */

static enum errand_end work_cancel(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct parts p;
    if (find(t, &p, e))
        return ERRAND_FAILED;
    if (p.state == PARTS_CANCELLED)
        return tell(t, &p, NULL);
    if (p.state != PARTS_PENDING)
        return not_pending(&p, e);
    p.file = p.asked = NULL;
    if (store_parts_cancel(desk_store(t->desk), &p, &why))
        return fail(&why, e);
    p.state = PARTS_CANCELLED;
    if (desk_parts_drop(t->desk, p.id, &why))
        log_event(LOG_WARN, "parts of an upload stay until the next start",
                  LOG_TEXT("why", why.msg));
    return tell(t, &p, NULL);
}

void route_parts_cancel(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_cancel);
}
