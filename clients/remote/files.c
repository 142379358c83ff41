/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem files` and what can be done with one: upload, get, content, delete.
 */
#include <errno.h>
#include <stdlib.h>

#include "clients/remote/list.h"
#include "clients/remote/upload.h"

struct files_values {
    struct remote_options remote;
    int64_t limit;
};

static const struct opt_row files_rows[] = {{.section = "Files",
                                             .name = "limit",
                                             .letter = 'n',
                                             .type = OPT_INT,
                                             .fallback = "20",
                                             .min = 0,
                                             .max = 1e9,
                                             .hint = "N",
                                             .help = "the newest so many; 0: all",
                                             .offset = offsetof(struct files_values, limit)},
                                            REMOTE_ROWS};

const struct cmd_opt cmd_opt_files = {files_rows, sizeof files_rows / sizeof *files_rows,
                                      sizeof(struct files_values)};

int cmd_files(const struct opt *o)
{
    static const char *const member[] = {"id", "purpose", "bytes", "created_at", "filename"};
    static const char *const name[] = {"FILE", "PURPOSE", "BYTES", "CREATED", "NAME"};
    const struct files_values *v = o->values;
    const struct list_options list = {.path = "/v1/files",
                                      .query = "",
                                      .limit = v->limit,
                                      .member = member,
                                      .name = name,
                                      .n = sizeof name / sizeof *name,
                                      .empty = "no files; `tandem files upload FILE` adds one"};
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(&v->remote, &e);
    int rc = p ? list_print(p, &v->remote, &list, &e) : -1;
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

static int ask_one(const struct opt *o, const char *method)
{
    const struct remote_options *r = o->values;
    struct err e = ERR_INIT;
    json_t *file = NULL;
    struct peer *p = remote_peer(r, &e);
    int rc = p ? remote_ask(p, method, "/v1/files/%s", o->arg[0], &file, &e) : -1;
    if (!rc)
        remote_print(r, file);
    json_decref(file);
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

const struct cmd_opt cmd_opt_files_get = REMOTE_ONLY;
const struct cmd_opt cmd_opt_files_delete = REMOTE_ONLY;

int cmd_files_get(const struct opt *o)
{
    return ask_one(o, "GET");
}

int cmd_files_delete(const struct opt *o)
{
    return ask_one(o, "DELETE");
}

/* ---- in ------------------------------------------------------------------------------------ */

struct upload_values {
    struct remote_options remote;
    const char *purpose;
};

static const struct opt_row upload_rows[] = {{.section = "File",
                                              .name = "purpose",
                                              .type = OPT_TEXT,
                                              .fallback = "fine-tune",
                                              .hint = "NAME",
                                              .help = "what it is for: fine-tune, batch, user_data",
                                              .offset = offsetof(struct upload_values, purpose)},
                                             REMOTE_ROWS};

const struct cmd_opt cmd_opt_files_upload = {upload_rows, sizeof upload_rows / sizeof *upload_rows,
                                             sizeof(struct upload_values)};

int cmd_files_upload(const struct opt *o)
{
    const struct upload_values *v = o->values;
    struct err e = ERR_INIT;
    json_t *file = NULL;
    char room[REMOTE_TEXT_BYTES];
    struct peer *p = remote_peer(&v->remote, &e);
    int rc = p ? upload_file(p, o->arg[0], v->purpose, &file, &e) : -1;
    if (!rc && v->remote.json)
        remote_print_json(file);
    else if (!rc)
        puts(remote_text(file, "id", room));
    json_decref(file);
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}

/* ---- out ----------------------------------------------------------------------------------- */

struct content_values {
    struct remote_options remote;
    const char *out;
};

static const struct opt_row content_rows[] = {
    {.section = "File",
     .name = "output",
     .letter = 'o',
     .type = OPT_TEXT,
     .hint = "FILE",
     .help = "write it there, where no file may be yet; default: stdout",
     .offset = offsetof(struct content_values, out)},
    REMOTE_ROWS};

const struct cmd_opt cmd_opt_files_content = {
    content_rows, sizeof content_rows / sizeof *content_rows, sizeof(struct content_values)};

static int write_content(struct peer *p, const char *id, FILE *out, struct err *e)
{
    char *escaped = peer_escape(id);
    struct buf path;
    buf_init(&path, 1 << 20);
    buf_printf(&path, "/v1/files/%s/content", escaped);
    int rc = buf_check(&path, "the id", e) ? -1 : peer_download(p, path.data, out, e);
    buf_release(&path);
    free(escaped);
    return rc;
}

static int save_content(struct peer *p, const char *id, const char *path, struct err *e)
{
    FILE *out = fopen(path, "wxe");
    if (!out)
        return err_sys(e, "%s", path);
    int rc = write_content(p, id, out, e);
    if (fclose(out) != 0 && !rc)
        rc = err_sys(e, "%s", path);
    if (rc)
        remove(path);
    return rc;
}

int cmd_files_content(const struct opt *o)
{
    const struct content_values *v = o->values;
    struct err e = ERR_INIT;
    struct peer *p = remote_peer(&v->remote, &e);
    int rc = !p       ? -1
             : v->out ? save_content(p, o->arg[0], v->out, &e)
                      : write_content(p, o->arg[0], stdout, &e);
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
