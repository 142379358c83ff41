/* SPDX-License-Identifier: Apache-2.0
 *
 * The one loop behind chat and completions: a call is parsed, rendered, tokenized, submitted as
 * n times prompts generations in one piece, and answered whole or as a stream.
 *
 * Seeds: choice 0 of a prompt draws with the request's seed, choice i with one derived from it; so
 * a choice does not depend on which other prompts came along. best_of keeps those with the highest
 * mean log-probability per token.
 *
 * A client that goes away cancels all its generations; each is given back within a step. The
 * engine's notifications hold a reference to the call, so what they look at outlives them.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_GENERATE_H
#define SERVER_ANSWER_GENERATE_H

#include "api/request.h"
#include "engine/engine.h"
#include "server/http/call.h"

void generate(struct call *c, enum api_route route);

/* The same of answers that are kept where the request wants that; keeper NULL: none is. It may wait
 * for a disk before it returns. */
struct keeper;
void generate_kept(struct call *c, enum api_route route, const struct keeper *keeper);

/* ---- what the routes of the engine share --------------------------------------------------- */

/* A request that was read: engine, body and model are good. False: it was answered. */
struct admitted {
    struct engine *engine;   /* borrowed */
    struct adapter *adapter; /* counted, let go by the arena; NULL: the base, or is_cold */
    bool is_cold;            /* the adapter is known, and to be loaded before it is used */
    struct api_request q;
};
bool generate_admit(struct call *c, enum api_route route, struct admitted *out);
bool generate_admit_kept(struct call *c, enum api_route route, const struct keeper *keeper,
                         struct admitted *out);

/* Prefixes are shared under equal salts: the tenant's, and the request's own where it has one. */
uint64_t generate_salt(struct call *c, const struct api_request *q);

/* The call is woken as the engine writes; the caller has taken a reference (call_ref), and gives it
 * back where engine_submit fails. */
struct gen_notify generate_notify(struct call *c, bool every_token);

#endif
