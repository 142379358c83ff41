/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of errors: {"error":{"message","type","param","code"}}. The message says what, the
 * limit, and the mend; never a path, an address, or what somebody else sent.
 *
 * Thread: any.
 */
#ifndef API_ERROR_H
#define API_ERROR_H

#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct api_error {
    int status;       /* of HTTP */
    const char *type; /* borrowed literal: "invalid_request_error", ... */
    const char *code; /* borrowed literal, or NULL */
    char param[96];   /* "" : null */
    char message[512];
    int retry_after_s; /* 0: no header */
    bool no_retry;     /* x-should-retry: false */
};

/* Sets it; returns -1. type and code follow from the status where they are NULL. */
int api_fail(struct api_error *e, int status, const char *code, const char *param, const char *fmt,
             ...) __attribute__((format(printf, 5, 6)));

/* What the engine said, as a client may see it. */
int api_fail_err(struct api_error *e, const struct err *from, const char *param);

/* The shape: that of OpenAI's API; on /v1/messages of Anthropic's, {"type":"error","error":{"type",
 * "message"}}, whose types are other words; below /api of Ollama's, {"error": message}. */
enum api_error_form { API_ERROR_PLAIN, API_ERROR_MESSAGES, API_ERROR_OLLAMA };
void api_error_write(const struct api_error *e, enum api_error_form form,
                     struct buf *out); /* the body */

#endif
