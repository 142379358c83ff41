/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /metrics and GET /version. Both answer while the model loads.
 */
#include "engine/base/version.h"
#include "server/answer/ops.h"
#include "server/http/route.h"
#include "server/metrics/metrics.h"
#include "server/server.h"

enum { METRICS_BYTES_MAX = 16 << 20, VERSION_BYTES_MAX = 4096 };

void route_metrics(struct call *c)
{
    struct server *s = call_server(c);
    struct metrics_text text;
    struct err why = ERR_INIT;
    struct api_error e;
    struct buf body;
    buf_init(&body, METRICS_BYTES_MAX);
    metrics_sample(server_metrics(s), s, &text, call_arena(c));
    metrics_write(server_metrics(s), &text, &body);
    if (!buf_check(&body, "the answer", &why)) {
        call_reply(c, 200, METRICS_TYPE, &body);
        return;
    }
    buf_release(&body);
    api_fail_err(&e, &why, NULL);
    call_error(c, &e);
}

void route_version(struct call *c)
{
    struct buf body;
    buf_init(&body, VERSION_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_str(&j, "version", version_number());
    jout_put_str(&j, "mode", version_mode());
    jout_close(&j, '}');
    ops_reply(c, &body);
}
