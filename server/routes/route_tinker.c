/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/v1: Tinker's API, as its public SDK speaks it. What changes a model, and what samples from
 * one, is put into a line (server/tinker) and answered with its place there; what it came to is
 * asked for at retrieve_future.
 */
#include <string.h>
#include <time.h>

#include "api/json.h"
#include "api/tinker.h"
#include "api/value.h"
#include "engine/engine.h"
#include "engine/tune.h"
#include "server/answer/ops.h"
#include "server/desk/desk.h"
#include "server/http/route.h"
#include "server/server.h"
#include "server/tinker/tinker.h"

enum { SESSIONS_MAX = 4096, SAMPLERS_MAX = 1 << 16, BODY_BYTES = 1 << 20 };

static const char note[] =
    "Adapters train attention and feed-forwards here: train_unembed changes nothing.";

static void put_type(struct jout *j, const char *type)
{
    jout_put_str(j, "type", type);
}

static struct tinker *tinker_of(struct errand *t, struct api_error *e)
{
    struct tinker *k = server_tinker(call_server(t->call));
    if (!k) {
        api_fail(e, 503, "loading", NULL, "The model is still being loaded.");
        e->retry_after_s = 1;
    }
    return k;
}

static const json_t *body_of(struct errand *t, struct api_error *e)
{
    return api_json_object(&t->arena, t->ask->body ? t->ask->body : "", t->ask->n_body, e);
}

/* A string member that must be there. */
static const char *text_of(const json_t *o, const char *key, struct api_error *e)
{
    const json_t *v = value_member(o, key);
    if (json_is_string(v) && json_string_length(v) < 512)
        return json_string_value(v);
    api_fail(e, 400, v ? "invalid_value" : "missing_field", key, "'%.64s' must be a string.", key);
    return NULL;
}

static enum errand_end none_such(const struct err *why, const char *what, const char *param,
                                 struct api_error *e)
{
    if (why->code != ERR_NOT_FOUND)
        return errand_fail(why, e);
    return api_fail(e, 404, "not_found", param, "This key has no such %s.", what);
}

static void send(struct call *c, enum errand_end (*work)(struct errand *, struct api_error *))
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work);
}

/* ---- the service ----------------------------------------------------------------------------- */

static void reply(struct call *c, const char *json)
{
    struct buf b;
    buf_init(&b, BODY_BYTES);
    buf_str(&b, json);
    call_reply(c, 200, "application/json", &b);
}

void route_tinker_health(struct call *c)
{
    reply(c, "{\"status\":\"ok\"}");
}

/* Flags of the SDK's that stand otherwise than it assumes. */
void route_tinker_config(struct call *c)
{
    reply(c, "{\"pjwt_auth_enabled\":false,\"parallel_fwdbwd_chunks\":true,"
             "\"proto_compress_fwdbwd\":false,\"use_pyqwest_transport\":false}");
}

void route_tinker_dynamic(struct call *c)
{
    reply(c, "{\"refresh_interval_sec\":300,\"sample_cancel_enabled\":false}");
}

void route_tinker_telemetry(struct call *c)
{
    reply(c, "{\"status\":\"accepted\"}"); /* and dropped */
}

void route_tinker_capabilities(struct call *c)
{
    struct engine *g = ops_engine(c);
    struct err why = ERR_INIT;
    struct buf b;
    if (!g)
        return;
    const struct engine_info *on = engine_info(g);
    buf_init(&b, BODY_BYTES);
    struct jout j = jout_on(&b);
    jout_open(&j, '{');
    jout_key(&j, "supported_models");
    jout_open(&j, '[');
    jout_open(&j, '{');
    jout_put_str(&j, "model_name", on->name);
    jout_put_int(&j, "max_context_length", on->ctx);
    jout_put_bool(&j, "trainable",
                  on->generates && server_desk(call_server(c)) && !tune_loop_check(g, &why));
    jout_put_bool(&j, "sampleable", on->generates);
    jout_close(&j, '}');
    jout_close(&j, ']');
    jout_close(&j, '}');
    ops_reply(c, &b);
}

/* ---- sessions -------------------------------------------------------------------------------- */

static enum errand_end work_session(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    char id[STORE_ID_BYTES];
    if (!body_of(t, e))
        return ERRAND_FAILED;
    store_id("sess_", id);
    if (store_loop_session_add(desk_store(t->desk), id, t->ask->who->name, (int64_t)time(NULL),
                               SESSIONS_MAX, &why)) {
        if (why.code == ERR_BUSY)
            return api_fail(e, 400, "sessions_limit", NULL, "%s: finish one.", why.msg);
        return errand_fail(&why, e);
    }
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    put_type(&j, "create_session");
    jout_put_str(&j, "session_id", id);
    jout_put_str(&j, "info_message", note);
    jout_close(&j, '}');
    return ERRAND_DONE;
}

static enum errand_end work_heartbeat(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    const json_t *o = body_of(t, e);
    const char *id = o ? text_of(o, "session_id", e) : NULL;
    if (!id)
        return ERRAND_FAILED;
    if (store_loop_session_see(desk_store(t->desk), id, t->ask->who->name, (int64_t)time(NULL),
                               &why))
        return why.code == ERR_NOT_FOUND
                   ? api_fail(e, 410, "session_over", "session_id",
                              "This key has no such session, or it was finished.")
                   : errand_fail(&why, e);
    buf_str(&t->out, "{\"type\":\"session_heartbeat\"}");
    return ERRAND_DONE;
}

static enum errand_end work_finish(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (store_loop_session_end(desk_store(t->desk), t->ask->param, t->ask->who->name, &why))
        return none_such(&why, "session", "session_id", e);
    buf_str(&t->out, "{}");
    return ERRAND_DONE;
}

void route_tinker_session(struct call *c)
{
    send(c, work_session);
}

void route_tinker_heartbeat(struct call *c)
{
    send(c, work_heartbeat);
}

void route_tinker_finish(struct call *c)
{
    send(c, work_finish);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void tell_place(struct errand *t, const struct loop_request *r, int64_t n_sample)
{
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    jout_put_str(&j, "request_id", r->id);
    if (r->kind != TINKER_SAMPLE)
        jout_put_str(&j, "model_id", r->line);
    if (r->kind == TINKER_SAMPLE) {
        jout_key(&j, "sample_sequence_ids");
        jout_open(&j, '[');
        for (int64_t i = 0; i < n_sample; i++)
            jout_str(&j, arena_printf(&t->arena, "%s:%lld", r->id, (long long)i));
        jout_close(&j, ']');
    }
    jout_close(&j, '}');
}

static enum errand_end put(struct errand *t, enum tinker_kind kind, struct api_error *e)
{
    struct tinker *k = tinker_of(t, e);
    const char *body = t->ask->body ? t->ask->body : "";
    struct tinker_address at;
    if (!k || tinker_address_read(kind, body, t->ask->n_body, &t->arena, &at, e))
        return ERRAND_FAILED;
    const struct loop_request r = {
        .id = arena_printf(&t->arena, "%s:%lld", at.line, (long long)at.seq),
        .owner = t->ask->who->name,
        .line = at.line,
        .seq = at.seq,
        .kind = kind,
        .body = body,
        .n_body = t->ask->n_body,
        .created = (int64_t)time(NULL)};
    const struct api_error *refused = t->kept; /* unless it was taken before */
    struct loop_request known;
    struct err unknown = ERR_INIT;
    bool is_new = false;
    if (refused &&
        store_loop_get(desk_store(t->desk), r.owner, r.id, &t->arena, &known, &unknown)) {
        *e = *refused;
        return ERRAND_FAILED;
    }
    if (tinker_put(k, &r, at.session, &is_new, e))
        return ERRAND_FAILED;
    t->is_again = !is_new;
    tell_place(t, &r, kind == TINKER_SAMPLE ? tinker_sample_count(body, r.n_body, &t->arena) : 0);
    return ERRAND_DONE;
}

static enum errand_end work_create(struct errand *t, struct api_error *e)
{
    return put(t, TINKER_CREATE, e);
}

static enum errand_end work_pass(struct errand *t, struct api_error *e)
{
    return put(t, TINKER_PASS, e);
}

static enum errand_end work_step(struct errand *t, struct api_error *e)
{
    return put(t, TINKER_STEP, e);
}

static enum errand_end work_save(struct errand *t, struct api_error *e)
{
    return put(t, TINKER_SAVE, e);
}

static enum errand_end work_load(struct errand *t, struct api_error *e)
{
    return put(t, TINKER_LOAD, e);
}

static enum errand_end work_save_sampler(struct errand *t, struct api_error *e)
{
    return put(t, TINKER_SAVE_SAMPLER, e);
}

void route_tinker_create(struct call *c)
{
    send(c, work_create);
}

void route_tinker_pass(struct call *c)
{
    send(c, work_pass);
}

void route_tinker_step(struct call *c)
{
    send(c, work_step);
}

void route_tinker_save(struct call *c)
{
    send(c, work_save);
}

void route_tinker_load(struct call *c)
{
    send(c, work_load);
}

void route_tinker_save_sampler(struct call *c)
{
    send(c, work_save_sampler);
}

static enum errand_end work_sample(struct errand *t, struct api_error *e)
{
    return put(t, TINKER_SAMPLE, e);
}

/* Its tokens count for the key's limits as what they may come to, when it is taken. One that is
 * sent again counts nothing, and is not refused for want of them. */
void route_tinker_sample(struct call *c)
{
    const struct call_request *ask = call_request(c);
    struct tinker_sample s;
    struct api_error e = {0};
    struct engine *g = ops_engine(c);
    struct errand *t = g ? errand_new(c) : NULL;
    if (!t)
        return;
    if (!tinker_sample_read(ask->body ? ask->body : "", ask->n_body, call_arena(c), &s, &e)) {
        int64_t left = engine_info(g)->ctx - s.n, most = s.params.max_new;
        most = most < 0 || most > left ? (left > 0 ? left : 0) : most;
        const struct call_most want = {s.n_sample, s.n + s.n_sample * most, "num_samples",
                                       "sampling_params"};
        if (call_reserve(c, &want, &e)) {
            t->kept = ARENA_NEW(call_arena(c), struct api_error);
            *(struct api_error *)t->kept = e;
        } else {
            call_note(c, engine_info(g)->name, s.n, s.n_sample * most);
        }
    }
    errand_send(t, work_sample);
}

/* ---- what they came to ----------------------------------------------------------------------- */

void route_tinker_retrieve(struct call *c)
{
    const struct call_request *ask = call_request(c);
    struct api_error e;
    struct tinker *k = server_tinker(call_server(c));
    const char *id = NULL;
    if (!desk_of(c, &e)) {
        call_error(c, &e);
        return;
    }
    const json_t *o = api_json_object(call_arena(c), ask->body ? ask->body : "", ask->n_body, &e);
    if (o)
        id = text_of(o, "request_id", &e);
    if (id && !k) {
        api_fail(&e, 503, "loading", NULL, "The model is still being loaded.");
        id = NULL;
    }
    if (id)
        tinker_tell(k, c, id);
    else
        call_error(c, &e);
}

/* ---- what there is --------------------------------------------------------------------------- */

static void put_shape(struct jout *j, int64_t rank, int64_t parts)
{
    jout_put_bool(j, "is_lora", true);
    jout_put_int(j, "lora_rank", rank);
    jout_put_bool(j, "train_unembed", false);
    jout_put_bool(j, "train_mlp", (parts & LOOP_OTHERS) != 0);
    jout_put_bool(j, "train_attn", (parts & LOOP_ATTENTION) != 0);
}

static enum errand_end work_info(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct loop_model m;
    const json_t *o = body_of(t, e);
    const char *id = o ? text_of(o, "model_id", e) : NULL;
    if (!id)
        return ERRAND_FAILED;
    if (store_loop_model(desk_store(t->desk), t->ask->who->name, id, &t->arena, &m, &why))
        return none_such(&why, "model", "model_id", e);
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    put_type(&j, "get_info");
    jout_put_str(&j, "model_id", m.id);
    jout_put_str(&j, "model_name", m.base);
    put_shape(&j, m.rank, m.parts);
    jout_key(&j, "model_data");
    jout_open(&j, '{');
    jout_put_str(&j, "arch", engine_info(desk_engine(t->desk))->architecture);
    jout_put_str(&j, "model_name", m.base);
    jout_put_str(&j, "tokenizer_id", m.base);
    jout_close(&j, '}');
    jout_close(&j, '}');
    return ERRAND_DONE;
}

static enum errand_end work_weights_info(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct loop_weights w;
    const json_t *o = body_of(t, e);
    const char *path = o ? text_of(o, "tinker_path", e) : NULL;
    if (!path)
        return ERRAND_FAILED;
    if (store_loop_weights(desk_store(t->desk), t->ask->who->name, path, &t->arena, &w, &why))
        return none_such(&why, "weights", "tinker_path", e);
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    jout_put_str(&j, "base_model", w.base);
    put_shape(&j, w.rank, w.parts);
    jout_close(&j, '}');
    return ERRAND_DONE;
}

static void write_checkpoint(struct errand *t, struct jout *j, const struct loop_weights *w)
{
    char at[32];
    time_t when = (time_t)w->created;
    struct tm tm;
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&when, &tm));
    jout_open(j, '{');
    jout_put_str(j, "checkpoint_id",
                 arena_printf(&t->arena, "%s/%s", w->is_sampler ? "sampler_weights" : "weights",
                              strrchr(w->path, '/') + 1));
    jout_put_str(j, "checkpoint_type", w->is_sampler ? "sampler" : "training");
    jout_put_str(j, "time", at);
    jout_put_str(j, "tinker_path", w->path);
    jout_close(j, '}');
}

/* Of a model that was dropped with its session, too. */
static enum errand_end work_checkpoints(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct loop_weights *list;
    size_t n;
    if (store_loop_weights_list(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena,
                                &list, &n, &why))
        return errand_fail(&why, e);
    struct loop_model run; /* one that is over may have left weights */
    if (!n && store_loop_model(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena,
                               &run, &why))
        return none_such(&why, "training run", NULL, e);
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    jout_key(&j, "checkpoints");
    jout_open(&j, '[');
    for (size_t i = 0; i < n; i++)
        if (list[i].is_named)
            write_checkpoint(t, &j, &list[i]);
    jout_close(&j, ']');
    jout_close(&j, '}');
    return ERRAND_DONE;
}

/* MODEL/checkpoints/KIND/NAME */
static enum errand_end work_drop(struct errand *t, struct api_error *e)
{
    static const char between[] = "/checkpoints/";
    struct err why = ERR_INIT;
    struct tinker *k = tinker_of(t, e);
    const char *at = strstr(t->ask->param, between);
    if (!k)
        return ERRAND_FAILED;
    if (!at)
        return api_fail(e, 404, "not_found", NULL, "There are MODEL/checkpoints/KIND/NAME.");
    const char *path = arena_printf(&t->arena, "tinker://%.*s/%s", (int)(at - t->ask->param),
                                    t->ask->param, at + sizeof between - 1);
    if (tinker_drop(k, t->ask->who->name, path, &why))
        return none_such(&why, "weights", NULL, e);
    buf_str(&t->out, "{}");
    return ERRAND_DONE;
}

void route_tinker_info(struct call *c)
{
    send(c, work_info);
}

void route_tinker_weights_info(struct call *c)
{
    send(c, work_weights_info);
}

void route_tinker_checkpoints(struct call *c)
{
    send(c, work_checkpoints);
}

void route_tinker_drop(struct call *c)
{
    send(c, work_drop);
}

/* ---- samplers -------------------------------------------------------------------------------- */

/* Whose weights are there, or the base's. */
static int find_path(struct errand *t, const json_t *o, const char **path, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct loop_weights w;
    const struct engine_info *on = engine_info(desk_engine(t->desk));
    const char *base = value_member(o, "base_model") ? text_of(o, "base_model", e) : on->name;
    *path = value_member(o, "model_path") ? text_of(o, "model_path", e) : NULL;
    if (!base || (value_member(o, "model_path") && !*path))
        return -1;
    if (strcmp(base, on->name) != 0)
        return api_fail(e, 404, "model_not_found", "base_model",
                        "There is no base model of this name here: it is '%.200s'.", on->name);
    if (!*path)
        return 0;
    if (store_loop_weights(desk_store(t->desk), t->ask->who->name, *path, &t->arena, &w, &why))
        return none_such(&why, "weights", "model_path", e);
    return w.is_sampler ? 0
                        : api_fail(e, 400, "invalid_value", "model_path",
                                   "These are the state of a training: save_weights_for_sampler "
                                   "makes weights to sample from.");
}

static enum errand_end work_sampler(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    const json_t *o = body_of(t, e), *seq;
    const char *path, *session = o ? text_of(o, "session_id", e) : NULL;
    if (!session || find_path(t, o, &path, e))
        return ERRAND_FAILED;
    seq = value_member(o, "sampling_session_seq_id");
    if (!json_is_integer(seq) || json_integer_value(seq) < 0)
        return api_fail(e, 400, "invalid_value", "sampling_session_seq_id",
                        "'sampling_session_seq_id' must be an integer from 0.");
    const struct loop_sampler m = {.id = arena_printf(&t->arena, "%s:sample:%lld", session,
                                                      (long long)json_integer_value(seq)),
                                   .owner = t->ask->who->name,
                                   .session = session,
                                   .path = path,
                                   .created = (int64_t)time(NULL)};
    if (store_loop_sampler_add(desk_store(t->desk), &m, SAMPLERS_MAX, &why))
        return why.code == ERR_NO_SPACE ? api_fail(e, 400, "samplers_limit", "session_id",
                                                   "%s: finish sessions that have ended.", why.msg)
                                        : none_such(&why, "session", "session_id", e);
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    put_type(&j, "create_sampling_session");
    jout_put_str(&j, "sampling_session_id", m.id);
    jout_close(&j, '}');
    return ERRAND_DONE;
}

static enum errand_end work_sampler_show(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct loop_sampler m;
    if (store_loop_sampler(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena, &m,
                           &why))
        return none_such(&why, "sampler", NULL, e);
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    jout_put_str(&j, "sampler_id", m.id);
    jout_put_str(&j, "base_model", engine_info(desk_engine(t->desk))->name);
    jout_put_str(&j, "model_path", m.path);
    jout_close(&j, '}');
    return ERRAND_DONE;
}

void route_tinker_sampler(struct call *c)
{
    send(c, work_sampler);
}

void route_tinker_sampler_show(struct call *c)
{
    send(c, work_sampler_show);
}
