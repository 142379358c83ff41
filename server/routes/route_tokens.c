/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /tokenize, /detokenize, /apply-template and GET /tokenizer_info, as vLLM and llama.cpp have
 * them: what a client needs to count, cut and score by tokens exactly as generation does. The ids
 * of a prompt are those that /v1/completions would go on from, the ids of messages those of
 * /v1/chat/completions: special tokens are read alike.
 */
#include "engine/engine.h"
#include "engine/token/tokenizer.h"
#include "server/answer/generate.h"
#include "server/answer/ops.h"
#include "server/answer/prompt.h"
#include "server/http/route.h"

enum { BODY_BYTES_MAX = 256 << 20, INFO_BYTES_MAX = 8 << 20, TOKENS_MORE = 64 };

static void fail(struct call *c, const struct err *why, const char *param)
{
    struct api_error e;
    api_fail_err(&e, why, param);
    call_error(c, &e);
}

static void tell_ignored(struct call *c, const struct admitted *at)
{
    if (at->q.ignored)
        call_set_header(c, "x-tandem-ignored", at->q.ignored);
}

/* False: it was answered. */
static bool has_tokenizer(struct call *c, struct engine *g)
{
    struct api_error e;
    if (engine_tokenizer(g))
        return true;
    api_fail(&e, 400, "unsupported", NULL, "This model has no tokenizer.");
    call_error(c, &e);
    return false;
}

/* ---- text to tokens ------------------------------------------------------------------------ */

static void put_tokens(struct jout *j, const struct engine *g, const struct tok_list *list,
                       bool wants_strings)
{
    jout_open(j, '{');
    jout_put_int(j, "count", (int64_t)list->n);
    jout_put_int(j, "max_model_len", engine_info(g)->ctx);
    jout_key(j, "tokens");
    jout_open(j, '[');
    for (size_t i = 0; i < list->n; i++)
        jout_int(j, list->id[i]);
    jout_close(j, ']');
    jout_key(j, "token_strs");
    if (!wants_strings) {
        jout_null(j);
    } else {
        jout_open(j, '[');
        for (size_t i = 0; i < list->n; i++) {
            size_t n = 0;
            const char *p = tokenizer_piece(engine_tokenizer(g), list->id[i], &n);
            jout_bytes(j, p ? p : "", n);
        }
        jout_close(j, ']');
    }
    jout_close(j, '}');
}

static void reply_tokens(struct call *c, const struct admitted *at, const struct tok_segment *seg,
                         size_t n_seg)
{
    struct err why = ERR_INIT;
    struct tok_list list;
    size_t bytes = 0;
    for (size_t i = 0; i < n_seg; i++)
        bytes += seg[i].len;
    tok_list_init(&list, bytes + TOKENS_MORE, false); /* a token has a byte at least */
    if (tokenizer_encode_segments(engine_tokenizer(at->engine), seg, n_seg, at->q.adds_special,
                                  &list, &why)) {
        fail(c, &why, at->q.n_input ? "prompt" : "messages");
    } else {
        struct buf body;
        buf_init(&body, BODY_BYTES_MAX);
        struct jout j = jout_on(&body);
        put_tokens(&j, at->engine, &list, at->q.wants_strings);
        tell_ignored(c, at);
        call_note(c, at->q.model, (int64_t)list.n, 0);
        ops_reply(c, &body);
    }
    tok_list_release(&list);
}

static void tokenize_messages(struct call *c, struct admitted *at)
{
    struct api_error e;
    struct err why = ERR_INIT;
    struct template_out text;
    if (prompt_render(at->engine, &at->q, call_arena(c), &text, &e)) {
        call_error(c, &e);
        return;
    }
    struct tok_segment *seg = arena_try(call_arena(c), text.n_span + 1, sizeof *seg, &why);
    if (seg)
        reply_tokens(c, at, seg, template_out_segments(&text, seg));
    else
        fail(c, &why, "messages");
    template_out_release(&text);
}

void route_tokenize(struct call *c)
{
    struct admitted at;
    if (!generate_admit(c, API_TOKENIZE, &at) || !has_tokenizer(c, at.engine))
        return;
    if (!at.q.n_input) {
        tokenize_messages(c, &at);
        return;
    }
    const struct tok_segment seg = {
        .text = at.q.input->text, .len = at.q.input->n_text, .is_trusted = true};
    reply_tokens(c, &at, &seg, 1);
}

/* ---- to text ------------------------------------------------------------------------------- */

static void reply_text(struct call *c, const char *text, size_t n)
{
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_key(&j, "prompt");
    jout_bytes(&j, text, n);
    jout_close(&j, '}');
    ops_reply(c, &body);
}

void route_detokenize(struct call *c)
{
    struct admitted at;
    if (!generate_admit(c, API_DETOKENIZE, &at) || !has_tokenizer(c, at.engine))
        return;
    struct err why = ERR_INIT;
    struct buf text;
    buf_init(&text, BODY_BYTES_MAX);
    if (tokenizer_decode(engine_tokenizer(at.engine), at.q.input->id, at.q.input->n_id, false,
                         &text, &why)) {
        fail(c, &why, "tokens");
    } else {
        tell_ignored(c, &at);
        reply_text(c, text.len ? text.data : "", text.len);
    }
    buf_release(&text);
}

void route_apply_template(struct call *c)
{
    struct admitted at;
    struct api_error e;
    struct template_out text;
    if (!generate_admit(c, API_TEMPLATE, &at))
        return;
    if (prompt_render(at.engine, &at.q, call_arena(c), &text, &e)) {
        call_error(c, &e);
        return;
    }
    tell_ignored(c, &at);
    reply_text(c, text.text, text.len);
    template_out_release(&text);
}

/* ---- the tokenizer ------------------------------------------------------------------------- */

static void put_token(struct jout *j, const char *key, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *piece = id < 0 ? NULL : tokenizer_piece(t, id, &n);
    jout_key(j, key);
    if (piece)
        jout_bytes(j, piece, n);
    else
        jout_null(j);
}

void route_tokenizer_info(struct call *c)
{
    struct engine *g = ops_engine(c);
    if (!g || !has_tokenizer(c, g))
        return;
    const struct tokenizer *t = engine_tokenizer(g);
    struct buf body;
    buf_init(&body, INFO_BYTES_MAX);
    struct jout j = jout_on(&body);
    jout_open(&j, '{');
    jout_put_str(&j, "tokenizer_class", "PreTrainedTokenizerFast");
    jout_put_int(&j, "vocab_size", (int64_t)tokenizer_size(t));
    jout_put_int(&j, "model_max_length", engine_info(g)->ctx);
    put_token(&j, "bos_token", t, tokenizer_bos(t));
    put_token(&j, "eos_token", t, tokenizer_eos(t));
    put_token(&j, "unk_token", t, tokenizer_unk(t));
    put_token(&j, "pad_token", t, tokenizer_pad(t));
    jout_put_str(&j, "chat_template", engine_info(g)->chat_template);
    jout_close(&j, '}');
    ops_reply(c, &body);
}
