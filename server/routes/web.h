/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of clients/web, which are bytes of the program. clients/web/embed.sh writes the table
 * when the program is built.
 *
 * Thread: any; everything is constant.
 */
#ifndef SERVER_ROUTES_WEB_H
#define SERVER_ROUTES_WEB_H

#include <stddef.h>

struct web_file {
    const char *name; /* without folders */
    const char *type; /* the media type */
    const char *etag; /* in its quotes */
    const char *data; /* [n_data] */
    size_t n_data;
};

extern const struct web_file web_files[];
extern const size_t n_web_files;

#endif
