/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines to paste hold the address and the model's name as a shell and JSON take them.
 */
#include "server/banner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/version.h"
#include "engine/engine.h"

enum { URL_BYTES = LISTEN_TEXT_BYTES + 32, URL_USUAL_PORT = 8080 };

/* Whoever listens everywhere is asked at the nearest. */
static void put_url(const struct listen_at *at, char url[URL_BYTES])
{
    bool is_six = strchr(at->address, ':');
    if (at->is_wild)
        snprintf(url, URL_BYTES, "http://localhost:%d", at->port);
    else
        snprintf(url, URL_BYTES, "http://%s%s%s:%d", is_six ? "[" : "", at->address,
                 is_six ? "]" : "", at->port);
}

static void put_size(struct buf *out, int64_t bytes, const char *of)
{
    bool is_big = bytes >= 1000 * 1000 * 1000;
    buf_printf(out, "%.1f %s %s", (double)bytes / (is_big ? 1e9 : 1e6), is_big ? "GB" : "MB", of);
}

static void put_model(const struct banner *b, struct buf *out)
{
    const struct engine_info *m = b->model;
    buf_printf(out, "  model    %s: %s, %.1f million parameters, context %" PRId64 "\n", m->name,
               m->architecture, (double)m->n_param / 1e6, m->ctx);
    buf_printf(out, "  format   %s\n", m->weights);
    if (m->n_rank > 1)
        buf_printf(out, "  ranks    %d share it; memory and threads are those of each\n",
                   m->n_rank);
    buf_str(out, "  memory   ");
    put_size(out, m->weight_bytes, "weights, ");
    put_size(out, m->kv_bytes, "keys and values");
    if (m->state_bytes) {
        buf_str(out, ", ");
        put_size(out, m->state_bytes, "recurrent states");
    }
    buf_printf(out, ": room for %" PRId64 " tokens\n", m->n_cell * m->cell_tokens);
    buf_printf(
        out, "  at once  %" PRId64 " sequences, %" PRId64 " more may wait; %" PRId64 " thread%s\n",
        m->max_seqs, m->max_waiting, b->threads, b->threads == 1 ? "" : "s");
}

/* A name that a shell, JSON or a terminal could take for something else is left for people to fill
 * in. */
static const char *name_of(const struct banner *b)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-";
    const char *name = b->model->name;
    return name[strspn(name, safe)] ? "NAME" : name;
}

static void put_question(const struct banner *b, const char *url, const char *key, struct buf *out)
{
    static const char json[] = "-H 'Content-Type: application/json'";
    const struct engine_info *m = b->model;
    bool is_chat = m->generates && m->chat_template;
    const char *path = is_chat        ? "chat/completions"
                       : m->generates ? "completions"
                       : m->n_label   ? "classify"
                                      : "embeddings";
    const char *what =
        is_chat        ? "\"messages\": [{\"role\": \"user\", \"content\": \"What is Tandem?\"}]"
        : m->generates ? "\"prompt\": \"Once upon\", \"max_tokens\": 32"
                       : "\"input\": \"Once upon a time\"";
    buf_printf(out, "  curl %s/v1/%s%s %s \\\n", url, path, key, json);
    buf_printf(out, "       -d '{\"model\": \"%s\", %s}'\n", name_of(b), what);
}

/* For people, before what is for programs: the page, and a talk. */
static void put_doors(const struct banner *b, const char *url, struct buf *out)
{
    const struct engine_info *m = b->model;
    bool is_usual = b->at->port == URL_USUAL_PORT && (b->at->is_wild || b->at->is_loopback);
    buf_printf(out, "  %s/   in a browser: talk, fine-tune, watch\n", url);
    if (m->generates && m->chat_template && is_usual)
        buf_str(out, "  tandem chat\n");
    else if (m->generates && m->chat_template)
        buf_printf(out, "  tandem chat --url %s\n", url);
}

void banner_write(const struct banner *b, struct buf *out)
{
    const char *key = b->wants_key ? " -H \"Authorization: Bearer $TANDEM_API_KEY\"" : "";
    char url[URL_BYTES];
    put_url(b->at, url);
    buf_printf(out, "\nTandem %s serves at %s\n\n", version_number(), url);
    put_model(b, out);
    buf_printf(out, "  keys     %s\n", b->wants_key ? "on" : "off: whoever comes here may ask");
    if (b->data_dir)
        buf_printf(out, "  tuning   on, in %s\n", b->data_dir);
    else
        buf_str(out, "  tuning   off: it wants --data-dir\n");
    buf_str(out, "\nTo try:\n\n");
    put_doors(b, url, out);
    put_question(b, url, key, out);
    buf_printf(out, "  curl %s/v1/models%s\n", url, key);
    if (b->data_dir)
        buf_printf(out, "  curl %s/v1/files%s -F purpose=fine-tune -F file=@ROWS.jsonl\n", url,
                   key);
    else
        buf_printf(out, "  curl %s/health\n", url);
    buf_str(out, "\n");
}
