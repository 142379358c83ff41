/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a request that failed: the server's own words where it had any, else what the
 * system says; and what can be done about it.
 */
#include <string.h>

#include "clients/http/peer_own.h"

enum { SAID_BYTES = 400, SYSTEM_BYTES = 128 };

static enum err_code code_of(int status)
{
    switch (status) {
    case 404:
        return ERR_NOT_FOUND;
    case 413:
        return ERR_TOO_LARGE;
    case 408:
    case 429:
    case 503:
        return ERR_BUSY;
    default:
        return status < 500 ? ERR_BAD_INPUT : ERR_IO;
    }
}

/* {"error": {"message", "param"}}; some servers say {"error": "text"}. */
static const char *said(const json_t *root, const char **param)
{
    const json_t *error = json_object_get(root, "error");
    *param = json_string_value(json_object_get(error, "param"));
    if (json_is_string(error))
        return json_string_value(error);
    return json_string_value(json_object_get(error, "message"));
}

static const char *advice(int status)
{
    return status == 401 ? "; a key is given with --api-key or TANDEM_API_KEY" : "";
}

/* What a stranger wrote may hold what a terminal would obey. */
static void tame(char *text)
{
    for (char *s = text; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127)
            *s = ' ';
}

int peer_broken(const struct peer *p, struct err *e)
{
    if (e) {
        *e = p->why;
        tame(e->msg);
    }
    return -1;
}

int peer_refused(const struct peer *p, struct err *e)
{
    const char *param;
    json_t *root = json_loadb(p->fault.data ? p->fault.data : "", p->fault.len, 0, NULL);
    const char *message = said(root, &param);
    bool names = message && param && *param && !strstr(message, param);
    if (message)
        err_set(e, code_of(p->status), "%s%s%.*s%s", names ? param : "", names ? ": " : "",
                SAID_BYTES, message, advice(p->status));
    else
        err_set(e, code_of(p->status), "%s answers with status %d and says no more%s", p->shown,
                p->status, advice(p->status));
    if (e)
        tame(e->msg);
    json_decref(root);
    return -1;
}

int peer_unreached(const struct peer *p, int curl_code, int os_errno, struct err *e)
{
    char text[SYSTEM_BYTES];
    const char *why = p->text[0] ? p->text : p->curl->easy_strerror((CURLcode)curl_code);
    switch ((CURLcode)curl_code) {
    case CURLE_COULDNT_CONNECT:
        return err_set(e, ERR_IO,
                       "no server at %s (%s); start one with `tandem serve`, or say with --url "
                       "where it is",
                       p->shown, os_errno ? strerror_r(os_errno, text, sizeof text) : why);
    case CURLE_COULDNT_RESOLVE_HOST:
        return err_set(e, ERR_NOT_FOUND, "--url %s: no machine of this name is known", p->shown);
    case CURLE_OPERATION_TIMEDOUT:
        return err_set(e, ERR_BUSY, "%s took the request and did not answer in time", p->shown);
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        return err_set(e, ERR_IO, "%s closed the connection before its answer was whole", p->shown);
    default:
        return err_set(e, ERR_IO, "%s: %s", p->shown, why);
    }
}
