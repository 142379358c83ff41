/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server sends a client of ours while it writes: the first byte of the input says to whom,
 * a reader of events ('e'), or load's reader of a stream ('s') or a body. The same bytes one by
 * one tell the same.
 */
#include <string.h>

#include "clients/http/sse.h"
#include "clients/load/answer.h"
#include "tests/fuzz/fuzz.h"

enum { TOLD_BYTES = 1 << 20 };

static int told(void *ctx, const char *data, size_t n, struct err *e)
{
    struct buf *all = ctx;
    (void)e;
    ASSERT(strlen(data) <= n && data[n] == 0);
    buf_add(all, data, n);
    buf_char(all, '\n');
    return n && data[0] == '!' ? -1 : 0; /* who reads has enough */
}

static void read_events(const char *p, size_t n, size_t step, struct buf *all)
{
    struct sse s;
    struct err e = ERR_INIT;
    sse_init(&s);
    for (size_t i = 0; i < n; i += step)
        if (sse_feed(&s, p + i, n - i < step ? n - i : step, told, all, &e))
            break;
    sse_release(&s);
}

static void try_events(const char *p, size_t n)
{
    struct buf whole, cut;
    buf_init(&whole, TOLD_BYTES);
    buf_init(&cut, TOLD_BYTES);
    read_events(p, n, n, &whole);
    read_events(p, n, 1, &cut);
    ASSERT(whole.len == cut.len && (!whole.len || !memcmp(whole.data, cut.data, whole.len)));
    buf_release(&whole);
    buf_release(&cut);
}

static int read_answer(struct load_answer *a, const char *p, size_t n, size_t step, bool is_stream)
{
    int n_token = 0;
    load_answer_init(a);
    load_answer_clear(a, is_stream);
    for (size_t i = 0; i < n; i += step)
        n_token += load_answer_feed(a, p + i, n - i < step ? n - i : step);
    load_answer_done(a);
    return n_token;
}

static void try_answer(const char *p, size_t n, bool is_stream)
{
    struct load_answer a, b;
    ASSERT(read_answer(&a, p, n, n, is_stream) == read_answer(&b, p, n, 1, is_stream));
    ASSERT(a.n_event == b.n_event && a.tok_in == b.tok_in && a.tok_out == b.tok_out);
    ASSERT(a.is_finished == b.is_finished && a.is_over == b.is_over && a.is_bad == b.is_bad);
    ASSERT(a.has_error == b.has_error && strcmp(a.fault, b.fault) == 0);
    load_answer_release(&a);
    load_answer_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (data[0] == 'e')
        try_events((const char *)data + 1, size - 1);
    else
        try_answer((const char *)data + 1, size - 1, data[0] == 's');
    return 0;
}
