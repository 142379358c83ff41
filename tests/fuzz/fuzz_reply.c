/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of a server under load, whoever that is: the first byte of the input says in pieces of
 * what size it comes, the rest is the answer. However it is cut, it is understood alike.
 */
#include <string.h>

#include "clients/load/answer.h"
#include "clients/load/reply.h"
#include "tests/fuzz/fuzz.h"

struct understood {
    enum load_reply_got got;
    int status;
    int64_t n_event, tok_in, tok_out;
    bool is_over;
};

static struct understood read_all(const char *text, size_t n, size_t piece)
{
    struct load_reply r;
    struct load_answer a;
    struct understood u = {.got = LOAD_REPLY_WANTS};
    load_reply_init(&r);
    load_answer_init(&a);
    for (size_t from = 0; from < n && u.got == LOAD_REPLY_WANTS; from += piece) {
        const char *at = text + from, *end = from + piece < n ? at + piece : text + n, *body;
        size_t n_body;
        while ((u.got = load_reply_next(&r, &at, end, &body, &n_body)) == LOAD_REPLY_BODY) {
            ASSERT(body >= text && body + n_body <= end);
            a.is_stream = r.is_event_stream;
            u.n_event += load_answer_feed(&a, body, n_body);
        }
        ASSERT(u.got != LOAD_REPLY_WANTS || at == end);
    }
    load_answer_done(&a);
    ASSERT(memchr(a.fault, 0, sizeof a.fault));
    u.status = r.status;
    u.tok_in = a.tok_in;
    u.tok_out = a.tok_out;
    u.is_over = a.is_over;
    load_reply_release(&r);
    load_answer_release(&a);
    return u;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    struct understood whole = read_all(text, size - 1, size);
    struct understood cut = read_all(text, size - 1, data[0] % 16 + 1);
    ASSERT(whole.got == cut.got);
    if (whole.got == LOAD_REPLY_DONE)
        ASSERT(whole.status == cut.status && whole.n_event == cut.n_event &&
               whole.tok_in == cut.tok_in && whole.tok_out == cut.tok_out &&
               whole.is_over == cut.is_over);
    return 0;
}
