/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /metrics and GET /version, which answer while the model loads too; GET /load, as vLLM has it,
 * and GET /props, as llama.cpp has it.
 */
#include "engine/base/version.h"
#include "engine/engine.h"
#include "engine/token/tokenizer.h"
#include "server/answer/ops.h"
#include "server/http/route.h"
#include "server/metrics/metrics.h"
#include "server/server.h"

enum { METRICS_BYTES_MAX = 16 << 20, VERSION_BYTES_MAX = 4096, PROPS_BYTES_MAX = 4 << 20 };

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

void route_load(struct call *c)
{
    struct engine *g = ops_engine(c);
    struct buf body;
    if (!g)
        return;
    const struct engine_stat now = engine_stat(g);
    buf_init(&body, VERSION_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_int(&j, "server_load", now.n_running + now.n_waiting);
    jout_close(&j, '}');
    ops_reply(c, &body);
}

/* ---- what is served ------------------------------------------------------------------------ */

static void put_token(struct jout *j, const char *key, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *piece = id < 0 ? NULL : tokenizer_piece(t, id, &n);
    jout_put_bytes(j, key, piece ? piece : "", piece ? n : 0);
}

static void put_settings(struct jout *j, const struct engine_info *info)
{
    jout_key(j, "default_generation_settings");
    jout_open(j, '{');
    jout_put_int(j, "n_ctx", info->ctx);
    jout_close(j, '}');
    jout_put_int(j, "total_slots", info->max_seqs);
}

static void put_modalities(struct jout *j)
{
    jout_key(j, "modalities");
    jout_open(j, '{');
    jout_put_bool(j, "vision", false);
    jout_put_bool(j, "audio", false);
    jout_close(j, '}');
}

void route_props(struct call *c)
{
    struct engine *g = ops_engine(c);
    struct buf body;
    if (!g)
        return;
    const struct engine_info *info = engine_info(g);
    const struct tokenizer *t = engine_tokenizer(g);
    buf_init(&body, PROPS_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    put_settings(&j, info);
    jout_put_str(&j, "model_alias", info->name);
    jout_put_str(&j, "model_path", info->name);
    jout_put_str(&j, "chat_template", info->chat_template ? info->chat_template : "");
    put_token(&j, "bos_token", t, t ? tokenizer_bos(t) : -1);
    put_token(&j, "eos_token", t, t ? tokenizer_eos(t) : -1);
    put_modalities(&j);
    jout_put_str(&j, "build_info", version_number());
    jout_close(&j, '}');
    ops_reply(c, &body);
}
