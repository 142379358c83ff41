/* SPDX-License-Identifier: Apache-2.0
 *
 * The two names are those of libcurl's builds with OpenSSL and with GnuTLS, which have one
 * interface.
 */
#include "engine/base/curl_lib.h"

#include <pthread.h>
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/so_table.h"

enum { LINE_BYTES = 64 << 10 };

static const char *const files[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};

static const struct so_row rows[] = {
    {"curl_global_init", offsetof(struct curl_lib, global_init)},
    {"curl_global_cleanup", offsetof(struct curl_lib, global_cleanup)},
    {"curl_easy_init", offsetof(struct curl_lib, easy_init)},
    {"curl_easy_cleanup", offsetof(struct curl_lib, easy_cleanup)},
    {"curl_easy_reset", offsetof(struct curl_lib, easy_reset)},
    {"curl_easy_perform", offsetof(struct curl_lib, easy_perform)},
    {"curl_easy_setopt", offsetof(struct curl_lib, easy_setopt)},
    {"curl_easy_getinfo", offsetof(struct curl_lib, easy_getinfo)},
    {"curl_easy_header", offsetof(struct curl_lib, easy_header)},
    {"curl_easy_strerror", offsetof(struct curl_lib, easy_strerror)},
    {"curl_multi_init", offsetof(struct curl_lib, multi_init)},
    {"curl_multi_cleanup", offsetof(struct curl_lib, multi_cleanup)},
    {"curl_multi_add_handle", offsetof(struct curl_lib, multi_add_handle)},
    {"curl_multi_remove_handle", offsetof(struct curl_lib, multi_remove_handle)},
    {"curl_multi_perform", offsetof(struct curl_lib, multi_perform)},
    {"curl_multi_poll", offsetof(struct curl_lib, multi_poll)},
    {"curl_multi_info_read", offsetof(struct curl_lib, multi_info_read)},
    {"curl_slist_append", offsetof(struct curl_lib, slist_append)},
    {"curl_slist_free_all", offsetof(struct curl_lib, slist_free_all)},
    {"curl_mime_init", offsetof(struct curl_lib, mime_init)},
    {"curl_mime_free", offsetof(struct curl_lib, mime_free)},
    {"curl_mime_addpart", offsetof(struct curl_lib, mime_addpart)},
    {"curl_mime_name", offsetof(struct curl_lib, mime_name)},
    {"curl_mime_filename", offsetof(struct curl_lib, mime_filename)},
    {"curl_mime_type", offsetof(struct curl_lib, mime_type)},
    {"curl_mime_data", offsetof(struct curl_lib, mime_data)},
    {"curl_mime_data_cb", offsetof(struct curl_lib, mime_data_cb)},
};

static struct curl_lib found;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[300];
static bool is_there;

static void find(void)
{
    is_there = !so_table_fill(&found, rows, sizeof rows / sizeof *rows, files, why, sizeof why);
}

const struct curl_lib *curl_lib_get(struct err *e)
{
    pthread_once(&once, find);
    if (is_there)
        return &found;
    err_set(e, ERR_UNSUPPORTED, "libcurl, which speaks to servers, cannot be loaded: %s", why);
    return NULL;
}

struct curl_slist *curl_lib_header(const struct curl_lib *c, struct curl_slist *list,
                                   const char *name, const char *value)
{
    struct buf line;
    buf_init(&line, LINE_BYTES);
    buf_printf(&line, "%s: %s", name, value);
    struct curl_slist *more = line.failed ? NULL : c->slist_append(list, line.data);
    buf_release(&line);
    return more ? more : list;
}
