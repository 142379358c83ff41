/* SPDX-License-Identifier: Apache-2.0
 *
 * A file on its way to the server; on a terminal, large ones with a line that says how far.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_UPLOAD_H
#define CLIENTS_REMOTE_UPLOAD_H

#include "clients/remote/remote.h"

/* *file: the API's object, which the caller drops. */
int upload_file(struct peer *p, const char *path, const char *purpose, json_t **file,
                struct err *e);

#endif
