/* SPDX-License-Identifier: Apache-2.0
 *
 * Ollama's API but for its vectors (route_embeddings.c): conversations and prompts, and what there
 * is to ask. A model here is the base or an adapter, which may be known and not loaded now. Names
 * without a tag are shown with :latest, as Ollama's clients expect, and taken with or without it.
 */
#include <stdio.h>
#include <string.h>

#include "api/error.h"
#include "engine/base/clock.h"
#include "engine/base/sha256.h"
#include "engine/base/version.h"
#include "engine/engine.h"
#include "engine/template/template.h"
#include "server/answer/generate.h"
#include "server/answer/ops.h"
#include "server/http/route.h"

/* What clients may count on: some refuse versions that are older than a feature of theirs. */
#define OLLAMA_VERSION "0.12.6"

enum { BODY_BYTES_MAX = 4 << 20 };

void route_ollama_chat(struct call *c)
{
    generate(c, API_OLLAMA_CHAT);
}

void route_ollama_generate(struct call *c)
{
    generate(c, API_OLLAMA_GENERATE);
}

/* ---- a model ------------------------------------------------------------------------------- */

struct shown {
    const struct engine_info *base;
    const char *name;
    int64_t created;
    bool is_base;
};

static void put_time(struct jout *j, const char *key, int64_t at)
{
    char text[CLOCK_TEXT_BYTES];
    jout_put_str(j, key, clock_text(at * 1000000, text));
}

static void put_name(struct jout *j, const struct shown *m)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", m->name, strchr(m->name, ':') ? "" : ":latest");
    jout_put_str(j, "name", name);
    jout_put_str(j, "model", name);
}

/* The same however often a model is loaded, and when the server starts again. */
static void put_digest(struct jout *j, const struct shown *m)
{
    char text[1024], hex[SHA256_TEXT_BYTES];
    uint8_t digest[SHA256_BYTES];
    int n = snprintf(text, sizeof text, "%s\n%s\n%lld", m->base->fingerprint, m->name,
                     m->is_base ? 0 : (long long)m->created);
    sha256_of(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, digest);
    jout_put_str(j, "digest", sha256_text(digest, hex));
}

static void put_amount(struct jout *j, const char *key, int64_t n)
{
    char text[32];
    const char *unit = n >= 1000000000 ? "B" : n >= 1000000 ? "M" : "K";
    double per = *unit == 'B' ? 1e9 : *unit == 'M' ? 1e6 : 1e3;
    snprintf(text, sizeof text, "%.1f%s", (double)n / per, unit);
    jout_put_str(j, key, text);
}

static void put_upper(struct jout *j, const char *key, const char *word)
{
    char text[32];
    size_t n = 0;
    for (; word[n] && n + 1 < sizeof text; n++)
        text[n] = (char)(word[n] >= 'a' && word[n] <= 'z' ? word[n] - 'a' + 'A' : word[n]);
    text[n] = 0;
    jout_put_str(j, key, text);
}

static void put_details(struct jout *j, const struct shown *m)
{
    jout_key(j, "details");
    jout_open(j, '{');
    jout_put_str(j, "parent_model", m->is_base ? "" : m->base->name);
    jout_put_str(j, "family", m->base->architecture);
    jout_key(j, "families");
    jout_open(j, '[');
    jout_str(j, m->base->architecture);
    jout_close(j, ']');
    put_amount(j, "parameter_size", m->base->n_param);
    put_upper(j, "quantization_level", m->base->weights);
    jout_close(j, '}');
}

static void put_there(struct jout *j, const struct shown *m)
{
    jout_open(j, '{');
    put_name(j, m);
    put_time(j, "modified_at", m->created);
    jout_put_int(j, "size", m->base->weight_bytes);
    put_digest(j, m);
    put_details(j, m);
    jout_close(j, '}');
}

static void put_loaded(struct jout *j, const struct shown *m)
{
    jout_open(j, '{');
    put_name(j, m);
    jout_put_int(j, "size", m->base->weight_bytes);
    put_digest(j, m);
    put_details(j, m);
    jout_put_str(j, "expires_at", "9999-12-31T23:59:59Z");
    jout_put_int(j, "size_vram", m->base->is_on_gpu ? m->base->weight_bytes : 0);
    jout_put_int(j, "context_length", m->base->ctx);
    jout_close(j, '}');
}

/* ---- what there is ------------------------------------------------------------------------- */

static void list(struct call *c, bool is_loaded, void (*put)(struct jout *j, const struct shown *m))
{
    struct engine *g = ops_engine(c);
    struct engine_adapter_info *at;
    struct buf body;
    if (!g)
        return;
    size_t n = ops_adapters(c, g, &at);
    struct shown m = {.base = engine_info(g), .is_base = true};
    m.name = m.base->name;
    m.created = m.base->created;
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_key(&j, "models");
    jout_open(&j, '[');
    put(&j, &m);
    for (size_t i = 0; i < n; i++) {
        if (is_loaded && !at[i].version)
            continue;
        m = (struct shown){m.base, at[i].name, at[i].created, false};
        put(&j, &m);
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
    ops_reply(c, &body);
}

void route_ollama_tags(struct call *c)
{
    list(c, false, put_there);
}

void route_ollama_ps(struct call *c)
{
    list(c, true, put_loaded);
}

void route_ollama_version(struct call *c)
{
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_str(&j, "version", OLLAMA_VERSION);
    jout_put_str(&j, "tandem", version_number());
    jout_close(&j, '}');
    ops_reply(c, &body);
}

/* ---- one of them --------------------------------------------------------------------------- */

static void put_size(struct jout *j, const struct engine_info *base, const char *what, int64_t n)
{
    char key[96];
    snprintf(key, sizeof key, "%.48s.%s", base->architecture, what);
    jout_put_int(j, key, n);
}

static void put_sizes(struct jout *j, const struct engine_info *base)
{
    jout_key(j, "model_info");
    jout_open(j, '{');
    jout_put_str(j, "general.architecture", base->architecture);
    jout_put_int(j, "general.parameter_count", base->n_param);
    put_size(j, base, "context_length", base->ctx);
    put_size(j, base, "embedding_length", base->d_model);
    put_size(j, base, "vocab_size", base->n_vocab);
    jout_close(j, '}');
}

static void put_abilities(struct jout *j, const struct engine *g)
{
    const struct engine_info *base = engine_info(g);
    const struct template *t = engine_template(g);
    jout_key(j, "capabilities");
    jout_open(j, '[');
    if (base->generates)
        jout_str(j, "completion");
    if (base->tool_format && t && template_uses(t, "tools"))
        jout_str(j, "tools");
    if (base->think)
        jout_str(j, "thinking");
    if (base->embeds)
        jout_str(j, "embedding");
    if (base->fim)
        jout_str(j, "insert");
    jout_close(j, ']');
}

void route_ollama_show(struct call *c)
{
    struct admitted at;
    struct buf body;
    if (!generate_admit(c, API_OLLAMA_SHOW, &at))
        return;
    const struct engine_info *base = engine_info(at.engine);
    const struct shown m = {base, at.q.model, base->created, !at.adapter && !at.is_cold};
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    put_time(&j, "modified_at", base->created);
    jout_put_str(&j, "template", base->chat_template ? base->chat_template : "");
    put_details(&j, &m);
    put_sizes(&j, base);
    put_abilities(&j, at.engine);
    jout_close(&j, '}');
    if (at.q.ignored)
        call_set_header(c, "x-tandem-ignored", at.q.ignored);
    ops_reply(c, &body);
}
