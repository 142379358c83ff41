/* SPDX-License-Identifier: Apache-2.0
 *
 * The intake of POST /v1/files, and of the parts of /v1/uploads: the body goes through the
 * multipart reader as it comes, and its file to the disk, beside the name that it will have; the
 * memory taken is that of a few fields. Until upload_commit there is no file, whatever happens to
 * the client or to us.
 *
 * Thread: the call's HTTP thread while the body comes; the desk's from then on.
 */
#ifndef SERVER_DESK_UPLOAD_H
#define SERVER_DESK_UPLOAD_H

#include "api/job.h"
#include "api/multipart.h"
#include "api/parts.h"
#include "engine/base/aside.h"
#include "engine/base/buf.h"
#include "engine/base/sha256.h"
#include "server/desk/desk.h"
#include "server/http/route.h"
#include "server/store/store.h"

enum { UPLOAD_FIELD_MAX = 256, UPLOAD_FIELDS = 4 };

enum upload_part { UPLOAD_PURPOSE, UPLOAD_ANCHOR, UPLOAD_SECONDS, UPLOAD_FILE };

/* What a request may have, and what becomes of its file. */
struct upload_form {
    const char *name[UPLOAD_FIELDS]; /* NULL: it has no such field */
    const char *prefix;              /* of its id */
    bool is_part, needs_filename;
};

struct upload {
    const struct upload_form *form;
    struct multipart parser;
    struct aside file;
    bool has[UPLOAD_FIELDS];
    char field[UPLOAD_FILE][UPLOAD_FIELD_MAX + 1];
    size_t n_field;
    enum upload_part part; /* that is being read */
    char name[MULTIPART_NAME_MAX + 1], id[STORE_ID_BYTES], sha[SHA256_TEXT_BYTES];
    struct sha256 hash;
    int64_t bytes_max;
    struct desk *desk;       /* borrowed */
    struct desk_claim claim; /* of what the file has so far */
};

/* The whole body is there: looks at its fields, and fills the row but for its owner. */
int upload_row(struct upload *u, struct file_row *row, struct api_error *e);
int upload_commit(struct upload *u, struct err *e); /* the file has its name, and is on the disk */
void upload_entered(struct upload *u);              /* and its row counts its bytes */
void upload_refuse(struct upload *u);               /* or nothing of it is held from here on */

#endif
