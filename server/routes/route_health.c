/* SPDX-License-Identifier: Apache-2.0
 *
 * Is it alive, is it ready. Alive: the event loop answers, and the engine's thread, once there is
 * one, went round lately; load, loading and draining do not matter. Ready: requests would be
 * served, and what they are to leave be kept.
 */
#include "api/error.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/engine.h"
#include "server/desk/desk.h"
#include "server/http/route.h"
#include "server/server.h"

/* A step of a big model on a small machine can take long; a thread that is stuck takes longer. */
static const int64_t stuck_us = 120 * 1000 * 1000;

static void good(struct call *c)
{
    struct buf body;
    buf_init(&body, 64);
    buf_str(&body, "{\"status\":\"ok\"}");
    call_reply(c, 200, "application/json", &body);
}

static void answer_ready(struct call *c)
{
    const struct server *s = call_server(c);
    struct api_error e;
    struct desk *d = server_desk(s);
    if (d && desk_is_lost(d, &e)) {
        call_error(c, &e);
        return;
    }
    if (server_is_ready(s)) {
        good(c);
        return;
    }
    if (server_is_draining(s))
        api_fail(&e, 503, "draining", NULL, "The server is shutting down");
    else
        api_fail(&e, 503, "loading", NULL, "Loading model");
    e.retry_after_s = 1;
    call_error(c, &e);
}

static void answer_live(struct call *c)
{
    struct engine *g = server_engine(call_server(c));
    struct api_error e;
    if (!g || clock_us() - engine_stat(g).heartbeat_us < stuck_us) {
        good(c);
        return;
    }
    api_fail(&e, 503, "stuck", NULL, "the engine's thread has not gone round for long");
    call_error(c, &e);
}

void route_health(struct call *c)
{
    answer_ready(c);
}

void route_ready(struct call *c)
{
    answer_ready(c);
}

void route_v2_ready(struct call *c)
{
    answer_ready(c);
}

void route_ping(struct call *c)
{
    answer_ready(c);
}

void route_live(struct call *c)
{
    answer_live(c);
}

void route_v2_live(struct call *c)
{
    answer_live(c);
}
