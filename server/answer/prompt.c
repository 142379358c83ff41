/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendering and tokenizing run on the thread that has the call, of a long body one of background
 * work: they are bounded by the body's size, linear in it, and touch nothing shared.
 */
#include "server/answer/prompt.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/token/fim.h"
#include "engine/token/tokenizer.h"
#include "server/answer/thinking.h"

static const char *field(const struct api_request *q)
{
    if (q->route == API_INFILL)
        return "input_prefix";
    return q->route & (API_PROMPTS | API_OLLAMA_GENERATE | API_OLLAMA_VECTOR) ? "prompt"
           : q->route & API_CHATS                                             ? "messages"
           : q->route == API_RERANK                                           ? "documents"
           : q->route == API_SCORE                                            ? "text_2"
                                                                              : "input";
}

/* The name that a template has for whether the model thinks; NULL: it always does, or never. */
static const char *thinking_variable(const struct template *t)
{
    return template_uses(t, "enable_thinking") ? "enable_thinking"
           : template_uses(t, "thinking")      ? "thinking"
                                               : NULL;
}

struct api_limits prompt_limits(const struct engine *g)
{
    const struct engine_info *info = engine_info(g);
    const struct template *t = engine_template(g);
    return (struct api_limits){.n_vocab = info->n_vocab,
                               .n_vector = info->n_vector,
                               .ctx = info->ctx,
                               .sample = &info->sample,
                               .has_template = t != NULL,
                               .knows_developer = t && template_mentions(t, "developer"),
                               .fills_gaps = info->fim != NULL,
                               .may_think = info->think != NULL,
                               .may_limit = info->think_open >= 0 && info->think_close >= 0,
                               .turns_thinking = t && thinking_variable(t)};
}

/* ---- the template -------------------------------------------------------------------------- */

/* Variables that are the server's to set. */
static bool is_reserved(const char *name, size_t n)
{
    static const char *const names[] = {"messages", "tools", "add_generation_prompt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !memcmp(names[i], name, n))
            return true;
    return n > 6 && !memcmp(name + n - 6, "_token", 6);
}

static void ignore(struct api_request *q, struct arena *a, const char *name)
{
    if (q->ignored && strlen(q->ignored) > 512)
        return;
    q->ignored = q->ignored ? arena_printf(a, "%s, chat_template_kwargs.%.64s", q->ignored, name)
                            : arena_printf(a, "chat_template_kwargs.%.64s", name);
}

/* Of the client's variables those that the template reads, under names it can have: what is left
 * is printable, so that it can be told in a header. */
static int extra_vars(const struct template *t, struct api_request *q, struct arena *a,
                      struct jvalue *out, struct err *e)
{
    if (jv_dict(a, out, e))
        return -1;
    const struct jdict *d = q->extra.type == JT_DICT ? q->extra.d : NULL;
    for (size_t i = 0; d && i < d->n; i++) {
        const struct jstr *key = d->key[i].s;
        char *name = arena_strndup(a, key->p, key->len < 64 ? key->len : 64);
        if (is_reserved(key->p, key->len))
            return err_set(e, ERR_BAD_INPUT, "chat_template_kwargs: '%s' is the server's to set",
                           name);
        if (key->len < 64 && template_uses(t, name)) {
            if (jv_dict_put(a, out, key->p, key->len, d->val[i], e))
                return -1;
            continue;
        }
        for (char *p = name; *p; p++)
            *p = *p > ' ' && *p < 0x7f && *p != ',' ? *p : '?';
        ignore(q, a, name);
    }
    return 0;
}

static int put_thinking(const struct template *t, bool thinks, struct arena *a,
                        struct jvalue *extra, struct err *e)
{
    const char *name = thinking_variable(t);
    return jv_dict_put(a, extra, name, strlen(name), jv_bool(thinks), e);
}

/* reasoning_effort is a variable of the template, or sets the one by which the model thinks or does
 * not. Where a template has neither, only the values that ask for nothing special are taken. */
static int add_effort(const struct template *t, const struct api_request *q, struct arena *a,
                      struct jvalue *extra, struct err *e)
{
    const char *word = q->reasoning_effort;
    struct jvalue v;
    if (!word)
        return 0;
    bool is_none = strcmp(word, "none") == 0;
    if (template_uses(t, "reasoning_effort"))
        return jv_str_view(a, word, strlen(word), &v, e) ||
                       jv_dict_put(a, extra, "reasoning_effort", strlen("reasoning_effort"), v, e)
                   ? -1
                   : 0;
    if (thinking_variable(t))
        return put_thinking(t, !is_none, a, extra, e);
    return is_none || strcmp(word, "medium") == 0
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "reasoning_effort: this model has no such setting");
}

static int add_thinking(const struct template *t, const struct api_request *q, struct arena *a,
                        struct jvalue *extra, struct err *e)
{
    if (!q->sets_thinking)
        return 0;
    if (!thinking_variable(t))
        return err_set(e, ERR_UNSUPPORTED, "enable_thinking: this model has no such setting");
    return put_thinking(t, q->wants_thinking, a, extra, e);
}

/* Ends the text behind the last byte that the last message wrote, so that the answer goes on with
 * it. */
static void cut_behind_last(struct template_out *out, size_t n_message)
{
    size_t end = 0;
    for (size_t i = 0; i < out->n_span; i++) {
        uint32_t o = out->span[i].origin;
        if (jorigin_kind(o) == JORIGIN_CONTENT && jorigin_message(o) == n_message - 1)
            end = out->span[i].end;
    }
    if (!end) /* the template shows nothing of it */
        return;
    while (out->n_span && out->span[out->n_span - 1].end > end)
        out->n_span--;
    out->len = end;
    out->text[end] = 0;
}

/* Of messages that only call tools the content is none, as the templates of most families want it.
 * One that cannot have that gets an empty text. -1: there is none such, or that is no better. */
static int fill_contents(const struct jvalue *messages, struct arena *a, struct jvalue *out,
                         struct err *e)
{
    const struct jlist *l = messages->l;
    size_t n_filled = 0;
    struct jvalue copy, empty;
    if (jv_list(a, out, e) || jv_str_view(a, "", 0, &empty, e))
        return -1;
    for (size_t i = 0; i < l->n; i++) {
        const struct jdict *d = l->at[i].d;
        const struct jvalue *content = jv_dict_get(&l->at[i], "content");
        bool is_none = content && content->type == JT_NONE;
        if (jv_dict(a, &copy, e))
            return -1;
        for (size_t k = 0; k < d->n; k++)
            if (jdict_put(a, copy.d, d->key[k], d->val[k], e))
                return -1;
        if (is_none && jv_dict_put(a, &copy, "content", strlen("content"), empty, e))
            return -1;
        n_filled += is_none;
        if (jv_list_add(a, out, copy, e))
            return -1;
    }
    return n_filled ? 0 : -1;
}

static int render_filled(const struct template *t, const struct template_in *in, struct arena *a,
                         struct template_out *out, struct err *e)
{
    struct template_in filled = *in;
    struct jvalue messages;
    struct err other = ERR_INIT;
    if (e->code != ERR_BAD_INPUT || fill_contents(in->messages, a, &messages, &other))
        return -1;
    filled.messages = &messages;
    if (template_render(t, &filled, out, &other))
        return -1;
    *e = (struct err)ERR_INIT;
    return 0;
}

static int render(struct engine *g, struct api_request *q, struct arena *a,
                  struct template_out *out, struct err *e)
{
    const struct template *t = engine_template(g);
    const struct tokenizer *tok = engine_tokenizer(g);
    struct template_token token[TEMPLATE_TOKENS];
    struct jvalue extra;
    if (!t || !tok)
        return err_set(e, ERR_UNSUPPORTED,
                       "messages: this model has no chat template; use /v1/completions");
    if (extra_vars(t, q, a, &extra, e) || add_effort(t, q, a, &extra, e) ||
        add_thinking(t, q, a, &extra, e) || thinking_name(g, q, a, e))
        return -1;
    size_t out_bytes = (size_t)engine_info(g)->ctx * 64 + (1 << 20);
    const struct template_in in = {
        .messages = &q->messages,
        .tools = q->n_tool ? &q->tools : NULL,
        .extra = &extra,
        .token = token,
        .n_token = template_tokens(tok, token),
        .add_generation_prompt = q->adds_turn,
        .now = clock_local_s(clock_wall_us() / 1000000),
        .limits = {.out_bytes = out_bytes, .memory_bytes = 4 * out_bytes + ((size_t)16 << 20)}};
    if (template_render(t, &in, out, e) && render_filled(t, &in, a, out, e))
        return -1;
    if (q->goes_on)
        cut_behind_last(out, q->messages.l->n);
    return 0;
}

/* A text that begins with a field's name is that field's error. */
static int fail_at(const struct err *from, const char *otherwise, struct api_error *e)
{
    static const char *const names[] = {"chat_template_kwargs", "reasoning_effort",
                                        "enable_thinking"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(from->msg, names[i], strlen(names[i])))
            return api_fail_err(e, from, names[i]);
    return api_fail_err(e, from, otherwise);
}

int prompt_render(struct engine *g, struct api_request *q, struct arena *a,
                  struct template_out *out, struct api_error *e)
{
    struct err why = ERR_INIT;
    return render(g, q, a, out, &why) ? fail_at(&why, "messages", e) : 0;
}

/* ---- tokens -------------------------------------------------------------------------------- */

/* Tokens of a text that become a vector: as the model's files say, or as many as it has room for;
 * 0: all. */
static int64_t text_max(const struct engine *g, const struct api_request *q)
{
    const struct engine_info *info = engine_info(g);
    if (!(q->route & API_NUMBERS))
        return 0;
    return info->max_text || q->cut == API_CUT_MODEL ? info->max_text : info->ctx;
}

/* A text that is too long loses its end, but not the special tokens behind it: what
 * sentence-transformers does. Fewer tokens that the request asks for itself are taken from all. */
static void cut_text(const struct engine *g, const struct api_request *q, struct tok_list *l)
{
    size_t most = (size_t)text_max(g, q);
    bool cuts = q->cut != API_CUT_NEVER && (q->truncate <= 0 || (size_t)q->truncate > most);
    if (cuts)
        tokenizer_cut(engine_tokenizer(g), l, most, q->adds_special);
}

/* Exact counts are told up to here; a text that is far too long is not tokenized to its end, but to
 * be counted. */
static size_t list_max(const struct engine *g, const struct api_request *q, size_t bytes)
{
    size_t ctx = (size_t)engine_info(g)->ctx;
    return q->truncate || text_max(g, q) || q->route == API_COUNT ? bytes + 64 : 4 * ctx + 64;
}

/* Tokens that a prompt and its answer may have. */
static int64_t room(const struct engine *g, const struct api_request *q)
{
    return q->cut == API_CUT_NEVER ? text_max(g, q) : engine_info(g)->ctx;
}

int prompt_too_long(const struct engine *g, const struct api_request *q, int64_t n, bool is_more,
                    struct api_error *e)
{
    long long ctx = (long long)room(g, q), new = (long long)q->gen.max_new;
    const char *more = is_more ? "more than " : "";
    if ((q->route & API_NUMBERS) || new < 0)
        return api_fail(e, 400, "context_length_exceeded", field(q),
                        "This model's maximum context length is %lld tokens, and '%s' comes to "
                        "%s%lld. Shorten it.",
                        ctx, field(q), more, (long long)n);
    return api_fail(e, 400, "context_length_exceeded", field(q),
                    "This model's maximum context length is %lld tokens: %s%lld of '%s' and %lld "
                    "to be generated are too many. Shorten it, or ask for fewer.",
                    ctx, more, (long long)n, field(q), new);
}

/* Keeps the end where the request wants that, and holds the length against the context. */
static int finish(struct engine *g, const struct api_request *q, struct prompt *p,
                  struct api_error *e)
{
    const struct tokenizer *t = engine_tokenizer(g);
    int64_t ctx = room(g, q), keep = q->truncate;
    int64_t new = q->route &API_NUMBERS ? 0 : q->gen.max_new < 0 ? 1 : q->gen.max_new;
    if (keep < 0)
        keep = new < ctx ? ctx - new : 1;
    if (keep && p->n > keep) {
        p->id += p->n - keep;
        p->n = keep;
        p->text = NULL;
    }
    if (!p->n)
        return api_fail(e, 400, "invalid_value", field(q),
                        "'%s' comes to no token at all, and this model begins with none.",
                        field(q));
    p->text_goes_on =
        (q->route & API_PROMPTS) && (!t || tokenizer_has_text(t, p->id, (size_t)p->n));
    return p->n > ctx - new && q->route != API_COUNT ? prompt_too_long(g, q, p->n, false, e) : 0;
}

static void release_list(void *list)
{
    tok_list_release(list);
}

static int encode(struct engine *g, const struct api_request *q, const struct tok_segment *seg,
                  size_t n_seg, struct arena *a, struct prompt *out, struct api_error *e)
{
    struct err why = ERR_INIT;
    size_t bytes = 0;
    const struct tokenizer *t = engine_tokenizer(g);
    if (!t)
        return api_fail(e, 400, "unsupported", field(q),
                        "This model has no tokenizer: send token ids.");
    for (size_t i = 0; i < n_seg; i++)
        bytes += seg[i].len;
    struct tok_list *list = ARENA_NEW(a, struct tok_list);
    tok_list_init(list, list_max(g, q, bytes), q->echo && q->wants_logprobs);
    arena_defer(a, release_list, list);
    if (tokenizer_encode_segments(t, seg, n_seg, q->adds_special, list, &why))
        return why.code == ERR_TOO_LARGE ? prompt_too_long(g, q, (int64_t)list->max, true, e)
                                         : api_fail_err(e, &why, field(q));
    cut_text(g, q, list);
    out->id = list->id;
    out->n = (int64_t)list->n;
    out->span = list->span;
    return finish(g, q, out, e);
}

static int encode_chat(struct engine *g, struct api_request *q, struct arena *a, struct prompt *out,
                       struct api_error *e)
{
    struct template_out text;
    if (prompt_render(g, q, a, &text, e))
        return -1;
    struct err why = ERR_INIT;
    const struct think_marks *think = engine_info(g)->think;
    out->thinks = think ? think_place_of(think, text.text, text.len) : THINK_NOT;
    if (q->goes_on && out->thinks == THINK_MAY)
        out->thinks = THINK_NOT;
    struct tok_segment *seg = arena_try(a, text.n_span + 1, sizeof *seg, &why);
    int rc = seg ? encode(g, q, seg, template_out_segments(&text, seg), a, out, e)
                 : api_fail_err(e, &why, "messages");
    template_out_release(&text);
    return rc;
}

/* Text of a client is no mark, whatever it says. */
static int encode_gap(struct engine *g, const struct api_request *q, const struct api_input *in,
                      struct arena *a, struct prompt *out, struct api_error *e)
{
    const struct fim_text text = {.before = in->text,
                                  .n_before = in->n_text,
                                  .behind = q->gap.behind,
                                  .n_behind = q->gap.n_behind,
                                  .begun = q->gap.begun,
                                  .n_begun = q->gap.n_begun};
    struct tok_segment seg[FIM_SEGMENTS];
    return encode(g, q, seg, fim_marks_segments(engine_info(g)->fim, &text, seg), a, out, e);
}

/* What fills a gap ends with the tokens by which the model ends that, besides those asked for. */
static int end_gap(const struct engine *g, struct api_request *q, struct arena *a,
                   struct api_error *e)
{
    const struct engine_info *info = engine_info(g);
    struct gen_params *p = &q->gen;
    struct err why = ERR_INIT;
    size_t n = (size_t)p->n_stop_id;
    int32_t *id = arena_try(a, n + FIM_ENDS_MAX, sizeof *id, &why);
    if (!id)
        return api_fail_err(e, &why, field(q));
    if (n)
        memcpy(id, p->stop_id, n * sizeof *id);
    for (int32_t i = 0; i < info->n_fim_end && p->n_stop_id < GEN_STOP_ID_MAX; i++)
        id[p->n_stop_id++] = info->fim_end[i];
    p->stop_id = id;
    return 0;
}

/* What the model wants before a text. */
static int find_before(const struct engine *g, const struct api_request *q, const char **out,
                       struct api_error *e)
{
    char known[400] = "";
    size_t n, at = 0;
    *out = engine_prompt(g, q->prompt_name);
    if (*out)
        return 0;
    const char *const *name = engine_prompt_names(g, &n);
    for (size_t i = 0; i < n && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", name[i]);
    return n ? api_fail(e, 400, "invalid_value", "prompt_name",
                        "This model has no prompt of the name '%.80s': it has %s.", q->prompt_name,
                        known)
             : api_fail(e, 400, "invalid_value", "prompt_name", "This model has no prompts.");
}

static int encode_input(struct engine *g, const struct api_request *q, const struct api_input *in,
                        struct arena *a, struct prompt *out, struct api_error *e)
{
    *out = (struct prompt){
        .id = in->id, .n = (int64_t)in->n_id, .text = in->text, .n_text = in->n_text};
    if (!in->text && q->prompt_name)
        return api_fail(e, 400, "invalid_value", "prompt_name",
                        "'prompt_name' is for texts: lists of ids are taken as they are.");
    if (!in->text)
        return finish(g, q, out, e);
    if (q->gap.is_there)
        return encode_gap(g, q, in, a, out, e);
    const char *before = "";
    if ((q->route & API_NUMBERS) && find_before(g, q, &before, e))
        return -1;
    const struct tok_segment seg[] = {
        {.text = before, .len = strlen(before)},
        {.text = in->text, .len = in->n_text, .is_trusted = (q->route & API_PROMPTS) != 0}};
    return *before ? encode(g, q, seg, 2, a, out, e) : encode(g, q, seg + 1, 1, a, out, e);
}

int prompts_make(struct engine *g, struct api_request *q, struct arena *a,
                 const struct prompt **out, size_t *n, struct api_error *e)
{
    struct err why = ERR_INIT;
    *n = q->route & API_CHATS ? 1 : q->n_input;
    struct prompt *p = arena_try(a, *n, sizeof *p, &why);
    if (!p)
        return api_fail_err(e, &why, field(q));
    *out = p;
    if (q->route & API_CHATS)
        return encode_chat(g, q, a, p, e);
    if (q->gap.is_there && end_gap(g, q, a, e))
        return -1;
    for (size_t i = 0; i < *n; i++)
        if (encode_input(g, q, &q->input[i], a, &p[i], e))
            return -1;
    return 0;
}
