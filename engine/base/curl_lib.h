/* SPDX-License-Identifier: Apache-2.0
 *
 * libcurl, found when a server is first spoken to: it brings thirty libraries along, which take
 * longer to load than all else that a command does at its start, and which most commands have no
 * use for.
 *
 * Functions have libcurl's names, without "curl_", and its types. Thread: any.
 */
#ifndef ENGINE_BASE_CURL_LIB_H
#define ENGINE_BASE_CURL_LIB_H

#include <curl/curl.h>

#include "engine/base/err.h"

struct curl_lib {
    __typeof__(curl_global_init) *global_init;
    __typeof__(curl_global_cleanup) *global_cleanup;
    __typeof__(curl_easy_init) *easy_init;
    __typeof__(curl_easy_cleanup) *easy_cleanup;
    __typeof__(curl_easy_reset) *easy_reset;
    __typeof__(curl_easy_perform) *easy_perform;
    __typeof__(curl_easy_setopt) *easy_setopt;
    __typeof__(curl_easy_getinfo) *easy_getinfo;
    __typeof__(curl_easy_header) *easy_header;
    __typeof__(curl_easy_strerror) *easy_strerror;
    __typeof__(curl_multi_init) *multi_init;
    __typeof__(curl_multi_cleanup) *multi_cleanup;
    __typeof__(curl_multi_add_handle) *multi_add_handle;
    __typeof__(curl_multi_remove_handle) *multi_remove_handle;
    __typeof__(curl_multi_perform) *multi_perform;
    __typeof__(curl_multi_poll) *multi_poll;
    __typeof__(curl_multi_info_read) *multi_info_read;
    __typeof__(curl_slist_append) *slist_append;
    __typeof__(curl_slist_free_all) *slist_free_all;
    __typeof__(curl_mime_init) *mime_init;
    __typeof__(curl_mime_free) *mime_free;
    __typeof__(curl_mime_addpart) *mime_addpart;
    __typeof__(curl_mime_name) *mime_name;
    __typeof__(curl_mime_filename) *mime_filename;
    __typeof__(curl_mime_type) *mime_type;
    __typeof__(curl_mime_data) *mime_data;
    __typeof__(curl_mime_data_cb) *mime_data_cb;
};

/* The list with one more header; as it was where there is no memory for it. */
struct curl_slist *curl_lib_header(const struct curl_lib *c, struct curl_slist *list,
                                   const char *name, const char *value);

/* NULL: it cannot be loaded, or lacks one of them. It stays open. */
const struct curl_lib *curl_lib_get(struct err *e);

#endif
