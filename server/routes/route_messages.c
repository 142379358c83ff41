/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/messages, Anthropic's conversations, and /v1/messages/count_tokens, which says what the
 * same body would come to.
 */
#include "server/answer/calling.h"
#include "server/answer/generate.h"
#include "server/answer/ops.h"
#include "server/answer/prompt.h"
#include "server/http/route.h"

enum { BODY_BYTES_MAX = 1 << 10 };

void route_messages(struct call *c)
{
    generate(c, API_MESSAGES);
}

/* What would be refused of the request itself is refused here as well; how long it is, is not. */
static int count(struct call *c, struct admitted *at, int64_t *n, struct api_error *e)
{
    struct calling calling;
    const struct prompt *prompt;
    size_t n_prompt;
    if (calling_begin(&calling, at->engine, &at->q, call_arena(c), e) ||
        prompts_make(at->engine, &at->q, call_arena(c), &prompt, &n_prompt, e))
        return -1;
    *n = prompt->n;
    return 0;
}

void route_count_tokens(struct call *c)
{
    struct admitted at;
    struct api_error e;
    struct buf body;
    int64_t n;
    if (!generate_admit(c, API_COUNT, &at))
        return;
    if (count(c, &at, &n, &e)) {
        call_error(c, &e);
        return;
    }
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_int(&j, "input_tokens", n);
    jout_close(&j, '}');
    if (at.q.ignored)
        call_set_header(c, "x-tandem-ignored", at.q.ignored);
    call_note(c, at.q.model, n, 0);
    ops_reply(c, &body);
}
