/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem files` and what can be done with one: upload, get, content, delete.
 */
#include <stdlib.h>

#include "clients/remote/list.h"
#include "clients/remote/pick.h"
#include "clients/remote/upload.h"

#define FILES "/v1/files"

static const struct opt_row files_rows[] = {LIST_ROWS("Files")};

const struct cmd_opt cmd_opt_files = {files_rows, sizeof files_rows / sizeof *files_rows,
                                      sizeof(struct list_values)};

int cmd_files(const struct opt *o)
{
    static const char *const member[] = {"id", "purpose", "bytes", "created_at", "filename"};
    static const char *const name[] = {"FILE", "PURPOSE", "BYTES", "CREATED", "NAME"};
    const struct list_values *v = o->values;
    const struct list_shape list = {.path = FILES,
                                    .member = member,
                                    .name = name,
                                    .n = sizeof name / sizeof *name,
                                    .gives = "0132c",
                                    .empty = "no files; `tandem files upload FILE` adds one"};
    return list_show(o, &list, v->limit);
}

const struct cmd_opt cmd_opt_files_get = REMOTE_ONLY;
const struct cmd_opt cmd_opt_files_delete = REMOTE_ONLY;

int cmd_files_get(const struct opt *o)
{
    return remote_show(o, "GET", FILES "/%s");
}

int cmd_files_delete(const struct opt *o)
{
    return remote_show(o, "DELETE", FILES "/%s");
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

static int write_content(struct peer *p, const char *word, FILE *out, struct err *e)
{
    char *id = pick(p, FILES, word, e);
    char *path = id ? remote_path(FILES "/%s/content", id, e) : NULL;
    int rc = path ? peer_download(p, path, out, e) : -1;
    free(path);
    free(id);
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
