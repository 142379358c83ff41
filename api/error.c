/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors, from what went wrong to the bytes that clients read.
 */
#include "api/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/jout.h"

static const struct {
    int status;
    const char *type, *code;
} table[] = {
    {400, "invalid_request_error", NULL},
    {401, "authentication_error", "invalid_api_key"},
    {403, "permission_error", "insufficient_permissions"},
    {404, "invalid_request_error", "not_found"},
    {405, "invalid_request_error", "method_not_allowed"},
    {408, "timeout_error", "request_timeout"},
    {409, "conflict_error", "conflict"},
    {413, "invalid_request_error", "request_too_large"},
    {415, "invalid_request_error", "unsupported_media_type"},
    {417, "invalid_request_error", "expectation_failed"},
    {422, "invalid_request_error", NULL},
    {429, "rate_limit_error", "rate_limit_exceeded"},
    {431, "invalid_request_error", "headers_too_large"},
    {501, "invalid_request_error", "unsupported"},
    {503, "unavailable_error", "unavailable"},
    {504, "timeout_error", "timeout"},
    {507, "server_error", "no_space"},
};

/* Of a status without a row: who is at fault is in its hundreds. */
static void fill(struct api_error *e)
{
    e->type = e->status < 500 ? "invalid_request_error" : "server_error";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == e->status) {
            e->type = table[i].type;
            e->code = e->code ? e->code : table[i].code;
        }
}

int api_fail(struct api_error *e, int status, const char *code, const char *param, const char *fmt,
             ...)
{
    va_list ap;
    *e = (struct api_error){.status = status, .code = code};
    if (param)
        snprintf(e->param, sizeof e->param, "%s", param);
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    fill(e);
    return -1;
}

static int status_of(enum err_code code)
{
    switch (code) {
    case ERR_BAD_INPUT:
    case ERR_TOO_LARGE:
    case ERR_UNSUPPORTED:
    case ERR_EXISTS:
        return 400;
    case ERR_NOT_FOUND:
        return 404;
    case ERR_BUSY:
    case ERR_NO_MEMORY:
        return 503;
    case ERR_NO_SPACE:
        return 507;
    default:
        return 500;
    }
}

/* Whether a field holds the texts that fill a context: clients that hear of its length cut these. A
 * schema or a list that is too large is another fault. */
static bool is_of_texts(const char *param)
{
    static const char *const name[] = {"prompt", "messages", "input",       "documents",
                                       "text_2", "query",    "input_prefix"};
    bool is = !param; /* the whole of a request */
    for (size_t i = 0; i < sizeof name / sizeof *name && !is; i++)
        is = !strcmp(param, name[i]);
    return is;
}

int api_fail_err(struct api_error *e, const struct err *from, const char *param)
{
    int status = status_of(from->code);
    if (from->code == ERR_DIVERGED) { /* what the numbers do; and they do it again */
        api_fail(e, status, err_name(from->code), param, "%s", from->msg);
        e->no_retry = true;
        return -1;
    }
    if (status == 500) /* the text may name files and devices: the log has it */
        return api_fail(e, status, err_name(from->code), param,
                        "the server failed at this request; its log says more");
    if (status == 507) {
        api_fail(e, status, NULL, param,
                 "The server's disk is full, and what was asked for was not done.");
        e->no_retry = true;
        return -1;
    }
    bool is_long = from->code == ERR_TOO_LARGE && is_of_texts(param);
    api_fail(e, status, is_long ? "context_length_exceeded" : NULL, param, "%s", from->msg);
    if (status == 503)
        e->retry_after_s = 1;
    return -1;
}

/* "": null. */
static void put(struct jout *j, const char *key, const char *s)
{
    jout_put_str(j, key, s && *s ? s : NULL);
}

/* Anthropic's word for it. */
static const char *word_of(int status)
{
    static const struct {
        int status;
        const char *word;
    } words[] = {{401, "authentication_error"}, {403, "permission_error"},
                 {404, "not_found_error"},      {408, "timeout_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"},
                 {503, "overloaded_error"},     {504, "timeout_error"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].status == status)
            return words[i].word;
    return status < 500 ? "invalid_request_error" : "api_error";
}

static const char *message_of(const struct api_error *e)
{
    return *e->message ? e->message : "no reason is known";
}

static void put_members(struct jout *j, const struct api_error *e, enum api_error_form form)
{
    bool is_plain = form == API_ERROR_PLAIN;
    if (!is_plain)
        put(j, "type", word_of(e->status));
    put(j, "message", message_of(e));
    if (!is_plain)
        return;
    put(j, "type", e->type);
    put(j, "param", e->param);
    put(j, "code", e->code);
}

void api_error_write(const struct api_error *e, enum api_error_form form, struct buf *out)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    if (form == API_ERROR_MESSAGES)
        jout_put_str(&j, "type", "error");
    if (form == API_ERROR_OLLAMA) {
        put(&j, "error", message_of(e));
    } else {
        jout_key(&j, "error");
        jout_open(&j, '{');
        put_members(&j, e, form);
        jout_close(&j, '}');
    }
    jout_close(&j, '}');
}
