/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing requests. The body is written behind room for the headers, whose only part that depends
 * on it is a number of fixed width.
 */
#include "clients/load/ask.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/rng.h"

/* Streams of the generator: prompts that are shared, and those of a request. */
enum { SHARED_STREAM = 1, OWN_STREAM = 1 << 20, LENGTH_DIGITS = 10, FIRST_ID = 3 };

/* About a token each in most vocabularies. */
static const char *const words[] = {
    "time",  "year",   "people", "way",    "day",   "man",   "thing",  "woman", "life",  "child",
    "world", "school", "state",  "family", "hand",  "part",  "place",  "case",  "week",  "point",
    "house", "number", "night",  "water",  "room",  "book",  "word",   "side",  "kind",  "head",
    "good",  "new",    "first",  "last",   "long",  "great", "little", "own",   "other", "old",
    "right", "big",    "high",   "small",  "large", "next",  "early",  "young", "few",   "same",
    "run",   "see",    "know",   "take",   "come",  "make",  "find",   "give",  "tell",  "work",
    "call",  "try",    "ask",    "need"};

enum { N_WORD = sizeof words / sizeof *words };

static uint64_t draw(const struct load_ask *a, uint64_t n, int64_t i, uint64_t bound)
{
    uint64_t stream = i < a->shared_prefix ? SHARED_STREAM : OWN_STREAM + n;
    return rng_below(a->seed, stream, (uint64_t)i, bound);
}

static void write_ids(const struct load_ask *a, uint64_t n, struct buf *out)
{
    char digits[24];
    buf_char(out, '[');
    for (int64_t i = 0; i < a->input_tokens; i++) {
        uint64_t id = FIRST_ID + draw(a, n, i, (uint64_t)(a->vocab - FIRST_ID));
        size_t at = sizeof digits;
        do
            digits[--at] = (char)('0' + id % 10);
        while (id /= 10);
        if (i > 0)
            digits[--at] = ',';
        buf_add(out, digits + at, sizeof digits - at);
    }
    buf_char(out, ']');
}

static void write_words(const struct load_ask *a, uint64_t n, struct buf *out)
{
    buf_char(out, '"');
    for (int64_t i = 0; i < a->input_tokens; i++) {
        if (i > 0)
            buf_char(out, ' ');
        buf_str(out, words[draw(a, n, i, N_WORD)]);
    }
    buf_char(out, '"');
}

static void write_body(const struct load_ask *a, uint64_t n, struct buf *out)
{
    buf_printf(out, "{\"model\":\"%s\",", a->model);
    if (a->is_chat) {
        buf_str(out, "\"messages\":[{\"role\":\"user\",\"content\":");
        write_words(a, n, out);
        buf_str(out, "}]");
    } else {
        buf_str(out, "\"prompt\":");
        if (a->sends_ids)
            write_ids(a, n, out);
        else
            write_words(a, n, out);
    }
    buf_printf(out, ",\"max_tokens\":%" PRId64 ",\"temperature\":%g", a->output_tokens,
               a->temperature);
    if (a->ignore_eos)
        buf_str(out, ",\"ignore_eos\":true");
    if (a->is_stream)
        buf_str(out, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    if (a->body_more)
        buf_printf(out, ",%s", a->body_more);
    buf_char(out, '}');
}

static void write_headers(const struct load_ask *a, const char *method, const char *path,
                          struct buf *out)
{
    const struct load_url *u = a->url;
    bool is_v6 = strchr(u->host, ':') != NULL;
    buf_printf(out, "%s %s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: tandem-bench\r\n", method,
               u->base, path, is_v6 ? "[" : "", u->host, is_v6 ? "]" : "", u->port);
    if (a->api_key)
        buf_printf(out, "Authorization: Bearer %s\r\n", a->api_key);
}

void load_ask_write(const struct load_ask *a, uint64_t n, struct buf *out)
{
    buf_clear(out);
    write_headers(a, "POST", a->is_chat ? "/v1/chat/completions" : "/v1/completions", out);
    buf_str(out, "Accept: application/json, text/event-stream\r\n"
                 "Content-Type: application/json\r\nContent-Length: ");
    size_t number = out->len;
    buf_printf(out, "%0*d\r\n\r\n", LENGTH_DIGITS, 0);
    size_t body = out->len;
    write_body(a, n, out);
    size_t left = out->len - body;
    for (int i = LENGTH_DIGITS - 1; !out->failed && i >= 0; i--, left /= 10)
        out->data[number + (size_t)i] = (char)('0' + left % 10);
}

void load_ask_write_get(const struct load_ask *a, const char *path, struct buf *out)
{
    buf_clear(out);
    write_headers(a, "GET", path, out);
    buf_str(out, "Accept: application/json\r\n\r\n");
}
