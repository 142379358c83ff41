/* SPDX-License-Identifier: Apache-2.0
 *
 * By libcurl's interface of many transfers, which can be left between two looks.
 */
#include "engine/base/curl_post.h"

#include <stdio.h>

enum { LOOK_MS = 50, ANSWER_BYTES = 1 << 16, STATUS_GOOD = 200 };

struct answer {
    struct buf *out; /* borrowed; NULL: nobody reads it */
    size_t n;
};

static size_t on_answer(char *at, size_t size, size_t n, void *ctx)
{
    struct answer *a = ctx;
    a->n += size * n;
    bool is_kept = !a->out || !buf_add(a->out, at, size * n);
    return a->n > ANSWER_BYTES || !is_kept ? CURL_WRITEFUNC_ERROR : size * n;
}

static CURLcode perform(const struct curl_lib *c, const struct curl_post *p, CURL *easy,
                        char text[CURL_ERROR_SIZE])
{
    CURLM *multi = c->multi_init();
    CURLcode rc = CURLE_FAILED_INIT;
    int runs = 1, left;
    if (!multi || c->multi_add_handle(multi, easy) != CURLM_OK)
        runs = 0;
    while (runs && c->multi_perform(multi, &runs) == CURLM_OK && runs) {
        if (p->is_late(p->ctx)) {
            snprintf(text, CURL_ERROR_SIZE, "the server ends, and it has not answered yet");
            break;
        }
        c->multi_poll(multi, NULL, 0, LOOK_MS, NULL);
    }
    const CURLMsg *m = multi && !runs ? c->multi_info_read(multi, &left) : NULL;
    if (m)
        rc = m->data.result;
    if (multi)
        c->multi_remove_handle(multi, easy);
    if (multi)
        c->multi_cleanup(multi);
    return rc;
}

long curl_post(const struct curl_lib *c, const struct curl_post *p, char text[CURL_ERROR_SIZE])
{
    CURL *easy = c->easy_init();
    struct answer got = {.out = p->answer};
    long status = 0;
    snprintf(text, CURL_ERROR_SIZE, "no memory for a connection");
    if (!easy)
        return 0;
    text[0] = 0;
    c->easy_setopt(easy, CURLOPT_URL, p->url);
    c->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    c->easy_setopt(easy, CURLOPT_PROXY, "");
    c->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    c->easy_setopt(easy, CURLOPT_ERRORBUFFER, text);
    c->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)p->timeout_ms);
    c->easy_setopt(easy, CURLOPT_HTTPHEADER, p->headers);
    c->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
    c->easy_setopt(easy, CURLOPT_WRITEDATA, &got);
    c->easy_setopt(easy, CURLOPT_POSTFIELDS, p->body);
    c->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)p->n_body);
    CURLcode rc = perform(c, p, easy, text);
    c->easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (rc != CURLE_OK && status < STATUS_GOOD) {
        if (!*text)
            snprintf(text, CURL_ERROR_SIZE, "%s", c->easy_strerror(rc));
        status = 0;
    }
    c->easy_cleanup(easy);
    return status;
}
