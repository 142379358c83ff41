/* SPDX-License-Identifier: Apache-2.0
 *
 * The routes around the generating ones: models and adapters, tokens, and what tells of the
 * process. Each answers at once.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_OPS_H
#define SERVER_ANSWER_OPS_H

#include <stdint.h>

#include "api/error.h"
#include "api/jout.h"
#include "server/http/call.h"

struct engine;
struct engine_adapter_info;

/* The engine; NULL while it loads, and the call was answered. */
struct engine *ops_engine(struct call *c);

/* Why a name does not answer, as far as the asker may know: a model of another key is none. */
int ops_no_model(struct call *c, struct engine *g, const char *name, struct api_error *e);

/* The adapters that there are now and the asker may use, in the call's arena. */
size_t ops_adapters(struct call *c, struct engine *g, struct engine_adapter_info **at);

/* 200 with the JSON in body, or the error that the buffer is too small for it. Moves the bytes. */
void ops_reply(struct call *c, struct buf *body);

#endif
