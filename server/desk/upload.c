/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields may stand in any order, so what depends on two of them is looked at behind the last.
 */
#include "server/desk/upload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/file_ask.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/num.h"

static const struct upload_form whole = {
    .name = {"purpose", "expires_after[anchor]", "expires_after[seconds]", "file"},
    .prefix = "file-",
    .needs_filename = true};
static const struct upload_form piece = {
    .name = {NULL, NULL, NULL, "data"}, .prefix = "part_", .is_part = true};

static int disk_fault(const struct upload *u, const struct err *why, struct api_error *e)
{
    log_event(LOG_ERROR, "an upload cannot be kept", LOG_TEXT("why", why->msg));
    store_look_home(desk_store(u->desk));
    return desk_is_lost(u->desk, e) ? -1 : api_fail_err(e, why, NULL);
}

/* ---- parts --------------------------------------------------------------------------------- */

static int check_purpose(const struct upload *u, struct api_error *e)
{
    return u->form->is_part || file_ask_purpose(u->field[UPLOAD_PURPOSE])
               ? 0
               : api_fail(e, 400, "invalid_value", "purpose",
                          "'purpose' is one of " FILE_ASK_PURPOSES ".");
}

static int begin_part(void *ctx, const char *name, const char *file, struct api_error *e)
{
    struct upload *u = ctx;
    size_t i = 0;
    while (i < UPLOAD_FIELDS && (!u->form->name[i] || strcmp(u->form->name[i], name) != 0))
        i++;
    if (i == UPLOAD_FIELDS)
        return api_fail(e, 400, "unknown_parameter", name, "Unknown field: '%.64s'.", name);
    if (u->has[i])
        return api_fail(e, 400, "invalid_multipart", u->form->name[i], "'%s' is there twice.",
                        u->form->name[i]);
    if ((i == UPLOAD_FILE) != (file != NULL) && (i != UPLOAD_FILE || u->form->needs_filename))
        return api_fail(e, 400, "invalid_value", u->form->name[i],
                        i == UPLOAD_FILE ? "'%s' must be a file, with a filename."
                                         : "'%s' must be a text, not a file.",
                        u->form->name[i]);
    u->part = (enum upload_part)i;
    u->has[i] = true;
    u->n_field = 0;
    if (file)
        snprintf(u->name, sizeof u->name, "%s", file);
    return 0;
}

static int add_file(struct upload *u, const char *p, size_t n, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (u->file.n_bytes + (int64_t)n > u->bytes_max)
        return api_fail(e, 413, "file_too_large", u->form->name[UPLOAD_FILE],
                        "It has more than the %" PRId64 " bytes that %s may have here.",
                        u->bytes_max, u->form->is_part ? "parts" : "files");
    if (desk_claim_grow(u->desk, &u->claim, (int64_t)n, e))
        return -1;
    sha256_add(&u->hash, p, n);
    return aside_write(&u->file, p, n, &why) ? disk_fault(u, &why, e) : 0;
}

static int add_data(void *ctx, const char *p, size_t n, struct api_error *e)
{
    struct upload *u = ctx;
    if (u->part == UPLOAD_FILE)
        return add_file(u, p, n, e);
    if (u->n_field + n > UPLOAD_FIELD_MAX || memchr(p, 0, n))
        return api_fail(e, 400, "invalid_value", u->form->name[u->part], "'%s' is no such value.",
                        u->form->name[u->part]);
    memcpy(u->field[u->part] + u->n_field, p, n);
    u->n_field += n;
    u->field[u->part][u->n_field] = 0;
    return 0;
}

/* A wrong purpose is told before the file is sent, where it comes first. */
static int end_part(void *ctx, struct api_error *e)
{
    const struct upload *u = ctx;
    return u->part == UPLOAD_PURPOSE ? check_purpose(u, e) : 0;
}

/* ---- the intake ---------------------------------------------------------------------------- */

static void drop_file(struct upload *u)
{
    aside_release(&u->file);
    desk_claim_end(u->desk, &u->claim);
}

static void upload_free(void *ctx)
{
    drop_file(ctx);
    free(ctx);
}

static void *upload_new(struct call *c, const struct upload_form *form, int64_t length,
                        struct api_error *e)
{
    struct err why = ERR_INIT;
    struct desk *d = desk_of(c, e);
    if (!d)
        return NULL;
    struct upload *u = xcalloc(1, sizeof *u);
    u->file.fd = -1;
    u->desk = d;
    u->form = form;
    desk_claim_begin(d, &u->claim, call_request(c)->who->name, desk_quota(d, call_request(c)));
    u->bytes_max = desk_options(d)->file_bytes_max;
    if (form->is_part && u->bytes_max > PART_BYTES_MAX)
        u->bytes_max = PART_BYTES_MAX;
    sha256_init(&u->hash);
    store_id(form->prefix, u->id);
    if (length > u->bytes_max + (64 << 10)) {
        api_fail(e, 413, "file_too_large", u->form->name[UPLOAD_FILE],
                 "It has more than the %" PRId64 " bytes that %s may have here.", u->bytes_max,
                 u->form->is_part ? "parts" : "files");
        upload_free(u);
        return NULL;
    }
    char *path = form->is_part ? desk_part_path(d, u->id) : desk_file_path(d, u->id);
    const struct multipart_sink sink = {
        .begin = begin_part, .data = add_data, .end = end_part, .ctx = u};
    int rc = multipart_init(&u->parser, call_header(c, "Content-Type"), &sink, e);
    if (!rc && aside_init(&u->file, path, &why))
        rc = disk_fault(u, &why, e);
    free(path);
    if (!rc)
        return u;
    upload_free(u);
    return NULL;
}

static int upload_push(void *ctx, const char *p, size_t n, struct api_error *e)
{
    struct upload *u = ctx;
    if (!multipart_push(&u->parser, p, n, e))
        return 0;
    /* nothing more is kept of what was refused, but the client may be long in sending */
    drop_file(u);
    return -1;
}

static void *begin_whole(struct call *c, int64_t length, struct api_error *e)
{
    return upload_new(c, &whole, length, e);
}

static void *begin_piece(struct call *c, int64_t length, struct api_error *e)
{
    return upload_new(c, &piece, length, e);
}

const struct intake upload_intake = {
    .type = "multipart/form-data", .begin = begin_whole, .push = upload_push, .free = upload_free};
const struct intake part_intake = {
    .type = "multipart/form-data", .begin = begin_piece, .push = upload_push, .free = upload_free};

/* ---- the row ------------------------------------------------------------------------------- */

static int read_expiry(const struct upload *u, int64_t now, int64_t *expires, struct api_error *e)
{
    int64_t s;
    *expires = 0;
    if (!u->has[UPLOAD_ANCHOR] && !u->has[UPLOAD_SECONDS])
        return 0;
    if (strcmp(u->field[UPLOAD_ANCHOR], "created_at") != 0)
        return api_fail(e, 400, "invalid_value", u->form->name[UPLOAD_ANCHOR],
                        "'expires_after[anchor]' is created_at.");
    if (num_int(u->field[UPLOAD_SECONDS], FILE_ASK_KEEP_MIN_S, FILE_ASK_KEEP_MAX_S, &s, NULL))
        return api_fail(e, 400, "invalid_value", u->form->name[UPLOAD_SECONDS],
                        "'expires_after[seconds]' is from %d to %d.", FILE_ASK_KEEP_MIN_S,
                        FILE_ASK_KEEP_MAX_S);
    *expires = now + s;
    return 0;
}

int upload_row(struct upload *u, struct file_row *row, struct api_error *e)
{
    uint8_t digest[SHA256_BYTES];
    int64_t now = (int64_t)time(NULL), expires;
    if (multipart_finish(&u->parser, e))
        return -1;
    if (!u->has[UPLOAD_PURPOSE] && !u->form->is_part)
        return api_fail(e, 400, "missing_required_parameter", "purpose", "'purpose' is needed.");
    if (check_purpose(u, e))
        return -1;
    if (!u->has[UPLOAD_FILE])
        return api_fail(e, 400, "missing_required_parameter", u->form->name[UPLOAD_FILE],
                        "'%s' is needed.", u->form->name[UPLOAD_FILE]);
    if (read_expiry(u, now, &expires, e))
        return -1;
    sha256_end(&u->hash, digest);
    *row = (struct file_row){.id = u->id,
                             .purpose = u->field[UPLOAD_PURPOSE],
                             .name = u->name,
                             .sha256 = sha256_text(digest, u->sha),
                             .bytes = u->file.n_bytes,
                             .created = now,
                             .expires = expires};
    return 0;
}

int upload_commit(struct upload *u, struct err *e)
{
    return aside_commit(&u->file, e);
}

void upload_entered(struct upload *u)
{
    desk_claim_end(u->desk, &u->claim);
}

void upload_refuse(struct upload *u)
{
    drop_file(u);
}
