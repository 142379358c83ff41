/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of server-sent events, and the JSON behind `data:`.
 */
#include "clients/load/answer.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

void load_answer_init(struct load_answer *a)
{
    *a = (struct load_answer){.tok_in = -1, .tok_out = -1};
    buf_init(&a->text, LOAD_ANSWER_BYTES_MAX);
}

void load_answer_release(struct load_answer *a)
{
    buf_release(&a->text);
}

void load_answer_clear(struct load_answer *a, bool is_stream)
{
    struct buf text = a->text;
    buf_clear(&text);
    *a = (struct load_answer){.is_stream = is_stream, .text = text, .tok_in = -1, .tok_out = -1};
}

/* Keeps what can be shown on one line of a terminal. */
static void set_fault(struct load_answer *a, const char *text)
{
    size_t n = 0;
    for (; text[n] && n + 1 < sizeof a->fault; n++)
        a->fault[n] = text[n] < ' ' || text[n] == 127 ? ' ' : text[n];
    a->fault[n] = 0;
}

static void read_error(struct load_answer *a, const json_t *error)
{
    const json_t *message = json_object_get(error, "message");
    const char *text = json_string_value(json_is_string(error) ? error : message);
    a->has_error = true;
    set_fault(a, text ? text : "an error without a message");
}

static int64_t count_of(const json_t *usage, const char *name)
{
    const json_t *v = json_object_get(usage, name);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

/* True when it carried a token. */
static bool read_choice(struct load_answer *a, const json_t *choice)
{
    const json_t *delta = json_object_get(choice, "delta");
    const char *text =
        json_string_value(json_object_get(delta ? delta : choice, delta ? "content" : "text"));
    bool ends = json_is_string(json_object_get(choice, "finish_reason"));
    a->is_finished = a->is_finished || ends;
    return text && (*text || (!delta && !ends));
}

/* One object: a chunk of a stream or the whole answer. */
static bool read_object(struct load_answer *a, const char *p, size_t n)
{
    bool has_token = false;
    size_t i;
    json_t *choice, *root = json_loadb(p, n, JSON_ALLOW_NUL, NULL),
                    *error = json_object_get(root, "error");
    a->is_bad = a->is_bad || !json_is_object(root);
    if (error && !json_is_null(error))
        read_error(a, error);
    json_array_foreach(json_object_get(root, "choices"), i, choice) has_token =
        read_choice(a, choice) || has_token;
    const json_t *usage = json_object_get(root, "usage");
    if (json_is_object(usage)) {
        a->tok_in = count_of(usage, "prompt_tokens");
        a->tok_out = count_of(usage, "completion_tokens");
    }
    json_decref(root);
    return has_token;
}

static bool read_line(struct load_answer *a, const char *line, size_t n)
{
    while (n > 0 && line[n - 1] == '\r')
        n--;
    if (n < 5 || memcmp(line, "data:", 5) != 0)
        return false; /* a comment, another field, the empty line between events */
    size_t skip = n > 5 && line[5] == ' ' ? 6 : 5;
    line += skip;
    n -= skip;
    if (n == 6 && memcmp(line, "[DONE]", 6) == 0) {
        a->is_over = true;
        return false;
    }
    if (!read_object(a, line, n))
        return false;
    a->n_event++;
    return true;
}

/* A line that came whole is read where it lies; only one that is cut is copied. */
static int feed_lines(struct load_answer *a, const char *p, size_t n)
{
    int n_event = 0;
    for (const char *end = p + n; p < end && !a->is_bad;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((stop ? stop : end) - p);
        if (!stop || a->text.len > 0)
            a->is_bad = buf_add(&a->text, p, len) != 0;
        if (!stop)
            break;
        bool is_kept = a->text.len > 0;
        n_event += read_line(a, is_kept ? a->text.data : p, is_kept ? a->text.len : len);
        buf_clear(&a->text);
        p = stop + 1;
    }
    return n_event;
}

int load_answer_feed(struct load_answer *a, const char *p, size_t n)
{
    if (a->is_stream)
        return feed_lines(a, p, n);
    if (buf_add(&a->text, p, n))
        a->is_bad = true;
    return 0;
}

void load_answer_done(struct load_answer *a)
{
    if (a->is_stream || a->is_bad)
        return;
    read_object(a, a->text.data ? a->text.data : "", a->text.len);
    a->is_over = true;
}
