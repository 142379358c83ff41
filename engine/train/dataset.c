/* SPDX-License-Identifier: Apache-2.0
 *
 * From texts to rows of tokens.
 */
#include "engine/train/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/siphash.h"
#include "engine/train/dataset_taught.h"
#include "engine/train/row_text.h"

enum { TEXT_BYTES_MAX = 64 << 20, TOK_MAX = 1 << 24 };

void dataset_init(struct dataset *d, const struct dataset_options *o)
{
    *d = (struct dataset){.opt = *o, .weight = 1};
}

void dataset_release(struct dataset *d)
{
    vec_release(&d->id);
    vec_release(&d->is_learned);
    vec_release(&d->row);
    vec_release(&d->text);
    vec_release(&d->target);
    vec_release(&d->top_id);
    vec_release(&d->top);
    if (d->ids)
        token_ids_release(d->ids);
    free(d->ids);
    vec_release(&d->left_out);
}

static void digest_row(struct dataset *d, const struct dataset_row *r)
{
    const struct siphash_key ids = {d->digest, 1}, learned = {d->digest, 2};
    uint64_t a = siphash(ids, d->id.at + r->at, (size_t)r->n * sizeof *d->id.at);
    d->digest = a ^ siphash(learned, d->is_learned.at + r->at, (size_t)r->n);
    if (r->weight != 1)
        d->digest ^= siphash((struct siphash_key){d->digest, 3}, &r->weight, sizeof r->weight);
    if (r->is_undesirable)
        d->digest ^= siphash((struct siphash_key){d->digest, 4}, &r->n, sizeof r->n);
}

static const char what[] = "rows to train on";

/* Room is there. */
static void put(struct dataset *d, struct dataset_row *r, int32_t id, bool is_learned)
{
    d->id.at[d->id.n++] = id;
    d->is_learned.at[d->is_learned.n++] = is_learned;
    r->n_learn += is_learned;
    r->n++;
}

static bool ends_turn(const struct dataset_options *o, int32_t id)
{
    for (int32_t i = 0; i < o->n_end_id; i++)
        if (o->end_id[i] == id)
            return true;
    return false;
}

/* The first token has nothing before it that could predict it; behind the token that ends a turn
 * nobody asks the model any more. */
static void put_tokens(struct dataset *d, struct dataset_row *r, const struct tok_list *l,
                       int64_t n, const struct row_part *part, size_t n_part)
{
    size_t p = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        while (p < n_part && part[p].hi <= i)
            p++;
        bool is_learned = p < n_part && i >= part[p].lo;
        put(d, r, l->id[i], is_learned && i > 0);
        p += is_learned && ends_turn(&d->opt, l->id[i]);
    }
}

static int make_room(struct dataset *d, int64_t n, struct err *e)
{
    size_t want = d->id.n + (size_t)n;
    return vec_try_reserve(&d->id, want, what, e) ||
                   vec_try_reserve(&d->is_learned, want, what, e) ||
                   vec_try_reserve(&d->row, d->row.n + 1, what, e)
               ? -1
               : 0;
}

/* The longest row so far, or that can be made of two of them. */
static void note_length(struct dataset *d, const struct dataset_row *r)
{
    int64_t n = r->n, prompt = 0;
    if (d->opt.has_verdicts && r->n_learn > 0) {
        while (!d->is_learned.at[r->at + (size_t)prompt])
            prompt++;
        d->longest_prompt = prompt > d->longest_prompt ? prompt : d->longest_prompt;
        d->longest_end = n - prompt > d->longest_end ? n - prompt : d->longest_end;
        n = d->longest_prompt + d->longest_end;
        n = n < d->opt.max_tok ? n : d->opt.max_tok;
    }
    d->longest = n > d->longest ? n : d->longest;
}

/* The tokens of l become a row: those of the parts are learned, and the token `end` behind them
 * (-1: none). */
static int add_row(struct dataset *d, const struct tok_list *l, const struct row_part *part,
                   size_t n_part, int32_t end, struct err *e)
{
    struct dataset_row r = {.at = d->id.n,
                            .example = d->example,
                            .weight = d->weight,
                            .is_undesirable = d->is_undesirable};
    bool has_end = end >= 0 && l->n > part[n_part - 1].lo && l->id[l->n - 1] == end;
    int64_t n = (int64_t)l->n - has_end, all = n + (end >= 0), max = d->opt.max_tok;
    if (all > max && d->opt.longer == DATASET_REFUSE)
        return err_set(e, ERR_TOO_LARGE, "%lld tokens: a row may have %lld", (long long)all,
                       (long long)max);
    if (make_room(d, all < max ? all : max, e))
        return -1;
    r.is_cut = all > max;
    if (r.is_cut) {
        d->n_cut++;
        d->n_tok_cut += all - max;
    }
    put_tokens(d, &r, l, n < max ? n : max, part, n_part);
    if (end >= 0 && r.n < max)
        put(d, &r, end, r.n > 0);
    d->row.at[d->row.n++] = r;
    d->has_weights |= r.weight != 1;
    digest_row(d, &r);
    d->n_learn += r.n_learn;
    d->n_barren += r.n_learn == 0;
    note_length(d, &r);
    return 0;
}

int dataset_leave_out(struct dataset *d, int64_t example, struct err *e)
{
    return vec_try_push(&d->left_out, what, e, example);
}

static int add_rendered(struct dataset *d, const struct template_out *out, struct row_part *part,
                        const struct taught *said, size_t n_part, struct err *e)
{
    const struct dataset then = *d;
    struct tok_list list;
    tok_list_init(&list, TOK_MAX, true);
    int rc = row_text_chat(d->opt.tokenizer, out, (size_t)d->opt.max_tok, &list, part, n_part, e);
    if (!rc)
        rc = add_row(d, &list, part, n_part, -1, e);
    if (!rc && dataset_teach(d, said, n_part, e)) {
        dataset_go_back(d, &then);
        rc = -1;
    }
    tok_list_release(&list);
    return rc;
}

/* A conversation's parts that are learned, and what teachers said of them. */
struct parts {
    struct row_part *part; /* owned, both: [n] */
    struct taught *said;
    size_t n;
};

static int parts_find(struct parts *p, struct dataset *d, const struct template_out *out,
                      const struct template_turns *turns, const double *weight, size_t n_weight,
                      struct err *e)
{
    p->part = try_alloc(turns->n, sizeof *p->part, what, e);
    p->said = try_alloc(turns->n, sizeof *p->said, what, e);
    if (!p->part || !p->said)
        return -1;
    for (size_t i = 0; i < turns->n; i++) {
        const struct template_turn *t = &turns->at[i];
        bool is_ours = t->message >= 0 && (size_t)t->message < n_weight;
        if (weight && is_ours && weight[t->message] == 0)
            continue;
        p->part[p->n] = (struct row_part){.lo = t->begin, .hi = t->end};
        p->n++;
        if (dataset_hear(d, t->message, out, &p->part[p->n - 1], &p->said[p->n - 1], e))
            return -1;
    }
    return 0;
}

static void parts_release(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        taught_release(&p->said[i]);
    mem_free(p->said);
    mem_free(p->part);
}

/* What a teacher said is for something: its message is shown, or was left out. */
static int check_heard(const struct dataset *d, const struct parts *p, const double *weight,
                       size_t n_weight, struct err *e)
{
    for (size_t i = 0; i < d->n_teacher; i++) {
        size_t m = d->teacher[i].message, k = 0;
        while (k < p->n && p->said[k].of != &d->teacher[i])
            k++;
        if (k == p->n && !(weight && m < n_weight && weight[m] == 0))
            return err_set(e, ERR_BAD_INPUT,
                           "'messages[%zu]' has 'logprobs', and the model's chat template shows "
                           "nothing of it",
                           m);
    }
    return 0;
}

static int check_tokenizer(const struct dataset *d, struct err *e)
{
    return d->opt.tokenizer ? 0 : err_set(e, ERR_UNSUPPORTED, "the model has no tokenizer");
}

/* ---- tools --------------------------------------------------------------------------------- */

static bool is_text(const struct jvalue *v, const char *text)
{
    size_t n = strlen(text);
    return v && v->type == JT_STR && v->s->len == n && memcmp(v->s->p, text, n) == 0;
}

/* Some clients write an empty list of calls beside each answer: it says nothing. */
static bool says(const struct jvalue *message, const char *key)
{
    const struct jvalue *v = jv_dict_get(message, key);
    return v && !(v->type == JT_LIST && v->l->n == 0);
}

/* What a row says of tools must be something that its template reads: a call that is not shown
 * leaves an answer of "None" behind, and tools that are not shown teach calls out of nothing. */
static int check_tools(const struct template *t, const struct jvalue *messages,
                       const struct jvalue *tools, struct err *e)
{
    static const char *const calls[] = {"tool_calls", "function_call"};
    if (tools && !template_uses(t, "tools"))
        return err_set(e, ERR_UNSUPPORTED,
                       "'tools': the model's chat template shows the model none; take them out of "
                       "the row");
    if (messages->type != JT_LIST)
        return 0;
    for (size_t i = 0; i < messages->l->n; i++)
        for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
            if (says(&messages->l->at[i], calls[k]) && !template_mentions(t, calls[k]))
                return err_set(e, ERR_UNSUPPORTED,
                               "'messages[%zu].%s': the model's chat template does not show them",
                               i, calls[k]);
    return 0;
}

/* What a tool answered must stand in the text, too. */
static int check_answers(const struct template_out *out, const struct jvalue *messages,
                         struct err *e)
{
    for (size_t i = 0; i < messages->l->n; i++) {
        const struct jvalue *message = &messages->l->at[i], *role = jv_dict_get(message, "role");
        const struct jvalue *content = jv_dict_get(message, "content");
        bool is_answer = is_text(role, "tool") || is_text(role, "function"), is_shown = false;
        if (!is_answer || !content || is_text(content, ""))
            continue;
        for (size_t k = 0; k < out->n_span && !is_shown; k++) {
            enum jorigin_kind kind = jorigin_kind(out->span[k].origin);
            is_shown = (kind == JORIGIN_MESSAGE || kind == JORIGIN_CONTENT) &&
                       jorigin_message(out->span[k].origin) == i;
        }
        if (!is_shown)
            return err_set(e, ERR_UNSUPPORTED,
                           "'messages[%zu]': the model's chat template shows no message of a tool",
                           i);
    }
    return 0;
}

int dataset_add_chat(struct dataset *d, const struct jvalue *messages, const struct jvalue *tools,
                     const double *weight, size_t n_weight, struct err *e)
{
    struct template_token token[TEMPLATE_TOKENS];
    if (check_tokenizer(d, e))
        return -1;
    struct template_in in = {.messages = messages,
                             .tools = tools,
                             .token = token,
                             .n_token = template_tokens(d->opt.tokenizer, token),
                             .now = d->opt.now,
                             .limits = {.out_bytes = TEXT_BYTES_MAX}};
    struct template_out out = {0};
    struct template_turns turns = {0};
    int rc;
    if (!d->opt.template)
        return err_set(e, ERR_UNSUPPORTED, "the model has no chat template");
    if (check_tools(d->opt.template, messages, tools, e) ||
        template_render_turns(d->opt.template, &in, &out, &turns, e))
        return -1;
    struct parts p = {.n = 0};
    rc = check_answers(&out, messages, e) || parts_find(&p, d, &out, &turns, weight, n_weight, e) ||
                 check_heard(d, &p, weight, n_weight, e) ||
                 add_rendered(d, &out, p.part, p.said, p.n, e)
             ? -1
             : 0;
    parts_release(&p);
    template_turns_release(&turns);
    template_out_release(&out);
    return rc;
}

/* ---- pairs --------------------------------------------------------------------------------- */

void dataset_go_back(struct dataset *d, const struct dataset *then)
{
    d->id.n = then->id.n;
    d->is_learned.n = then->is_learned.n;
    d->row.n = then->row.n;
    d->target.n = then->target.n;
    d->top_id.n = then->top_id.n;
    d->top.n = then->top.n;
    d->n_top = then->n_top;
    d->n_taught = then->n_taught;
    d->n_each = then->n_each;
    d->n_cut = then->n_cut;
    d->n_barren = then->n_barren;
    d->n_tok_cut = then->n_tok_cut;
    d->n_learn = then->n_learn;
    d->longest = then->longest;
    d->digest = then->digest;
}

static bool has_something(const struct dataset *d, const struct dataset_row *r)
{
    const int32_t *a = d->id.at + r[0].at, *b = d->id.at + r[1].at;
    bool is_same = r[0].n == r[1].n && memcmp(a, b, (size_t)r[0].n * sizeof *a) == 0;
    return r[0].n_learn > 0 && r[1].n_learn > 0 && !is_same;
}

/* The newest pair has something to learn in both of its rows, or in none. */
static void settle_pair(struct dataset *d)
{
    struct dataset_row *r = &d->row.at[d->row.n - 2];
    if (has_something(d, r))
        return;
    for (int i = 0; i < 2; i++) {
        d->n_learn -= r[i].n_learn;
        d->n_barren += r[i].n_learn > 0;
        r[i].n_learn = 0;
        memset(d->is_learned.at + r[i].at, 0, (size_t)r[i].n);
    }
}

static int add_end(struct dataset *d, const struct jvalue *messages, size_t n_shared,
                   const struct jvalue *tools, struct err *e)
{
    size_t n = messages->l->n;
    double *weight = try_alloc(n, sizeof *weight, what, e);
    if (!weight)
        return -1;
    for (size_t i = 0; i < n; i++)
        weight[i] = i >= n_shared;
    int rc = dataset_add_chat(d, messages, tools, weight, n, e);
    mem_free(weight);
    return rc;
}

int dataset_add_pair(struct dataset *d, const struct jvalue *preferred, const struct jvalue *other,
                     size_t n_shared, const struct jvalue *tools, struct err *e)
{
    const struct dataset then = *d;
    ASSERT(d->opt.has_pairs);
    if (add_end(d, preferred, n_shared, tools, e) || add_end(d, other, n_shared, tools, e)) {
        dataset_go_back(d, &then);
        return -1;
    }
    settle_pair(d);
    return 0;
}

/* ---- prompts ------------------------------------------------------------------------------- */

static int encode_prompt(struct dataset *d, const struct template_out *out, struct tok_list *list,
                         struct err *e)
{
    struct tok_segment *seg = try_alloc(out->n_span + 1, sizeof *seg, what, e);
    if (!seg)
        return -1;
    size_t n = template_out_segments(out, seg);
    int rc = tokenizer_encode_segments(d->opt.tokenizer, seg, n, false, list, e);
    mem_free(seg);
    return rc;
}

static int keep_text(struct dataset *d, const char *text, size_t n, struct err *e)
{
    if (vec_try_reserve(&d->text, d->text.n + n, what, e))
        return -1;
    memcpy(d->text.at + d->text.n, text, n);
    d->text.n += n;
    return 0;
}

/* Places behind the prompt are learned, whatever will stand there. */
static void put_sample(struct dataset *d, const struct tok_list *l, size_t text_at, size_t n_text)
{
    struct dataset_row r = {
        .at = d->id.n, .example = d->example, .weight = 1, .text_at = text_at, .n_text = n_text};
    for (size_t i = 0; i < l->n; i++)
        put(d, &r, l->id[i], false);
    for (int64_t i = 0; i < d->opt.max_new; i++)
        put(d, &r, l->id[l->n - 1], true);
    d->row.at[d->row.n++] = r;
    digest_row(d, &r);
    d->n_learn += r.n_learn;
    d->longest = r.n > d->longest ? r.n : d->longest;
}

static int add_samples(struct dataset *d, const struct tok_list *l, const char *text, size_t n_text,
                       struct err *e)
{
    int64_t all = (int64_t)l->n + d->opt.max_new;
    size_t at = d->text.n;
    if (l->n == 0)
        return err_set(e, ERR_BAD_INPUT, "the conversation has no tokens");
    if (all > d->opt.max_tok)
        return err_set(e, d->opt.longer == DATASET_REFUSE ? ERR_TOO_LARGE : ERR_BAD_INPUT,
                       "a prompt of %zu tokens with an answer of %lld: both may have %lld", l->n,
                       (long long)d->opt.max_new, (long long)d->opt.max_tok);
    if (make_room(d, all * d->opt.n_sample, e) ||
        vec_try_reserve(&d->row, d->row.n + (size_t)d->opt.n_sample, what, e) ||
        keep_text(d, text, n_text, e))
        return -1;
    for (int64_t k = 0; k < d->opt.n_sample; k++)
        put_sample(d, l, at, n_text);
    return 0;
}

int dataset_add_prompt(struct dataset *d, const struct jvalue *messages, const struct jvalue *tools,
                       const char *text, size_t n_text, struct err *e)
{
    struct template_token token[TEMPLATE_TOKENS];
    struct template_out out = {0};
    struct tok_list list;
    if (check_tokenizer(d, e))
        return -1;
    if (!d->opt.template)
        return err_set(e, ERR_UNSUPPORTED, "the model has no chat template");
    const struct template_in in = {.messages = messages,
                                   .tools = tools,
                                   .token = token,
                                   .n_token = template_tokens(d->opt.tokenizer, token),
                                   .add_generation_prompt = true,
                                   .now = d->opt.now,
                                   .limits = {.out_bytes = TEXT_BYTES_MAX}};
    if (check_tools(d->opt.template, messages, tools, e) ||
        template_render(d->opt.template, &in, &out, e))
        return -1;
    tok_list_init(&list, TOK_MAX, false);
    int rc = check_answers(&out, messages, e) || encode_prompt(d, &out, &list, e) ||
                     add_samples(d, &list, text, n_text, e)
                 ? -1
                 : 0;
    tok_list_release(&list);
    template_out_release(&out);
    return rc;
}

int dataset_add_text(struct dataset *d, const char *prompt, size_t n_prompt, const char *completion,
                     size_t n_completion, struct err *e)
{
    const struct tok_segment before = {prompt, n_prompt, true},
                             after = {completion, n_completion, true};
    struct tok_list list;
    struct row_part part;
    if (check_tokenizer(d, e))
        return -1;
    tok_list_init(&list, TOK_MAX, true);
    int rc = row_text_pair(d->opt.tokenizer, &before, &after, &list, &part, e);
    if (!rc)
        rc = add_row(d, &list, &part, 1, tokenizer_eos(d->opt.tokenizer), e);
    tok_list_release(&list);
    return rc;
}

struct train_row dataset_get(const struct dataset *d, size_t i, int32_t *label)
{
    const struct dataset_row *r = &d->row.at[i];
    const struct dataset_texts *o = &d->opt.texts;
    for (int64_t k = 0; k < r->n && o->loss; k++)
        label[k] = k == (o->takes_last ? r->n - 1 : 0) ? 0 : -1;
    for (int64_t k = 0; k < r->n && !o->loss; k++) {
        bool is_learned = k + 1 < r->n && d->is_learned.at[r->at + (size_t)k + 1];
        label[k] = is_learned ? d->id.at[r->at + (size_t)k + 1] : -1;
    }
    return (struct train_row){.id = d->id.at + r->at,
                              .label = label,
                              .target = o->n_label ? d->target.at + r->target_at : NULL,
                              .top_id = r->n_top ? d->top_id.at + r->top_at : NULL,
                              .top = r->n_top ? d->top.at + r->top_at : NULL,
                              .n_top = r->n_top,
                              .n_first = r->n_first,
                              .n = r->n,
                              .key = (uint64_t)i};
}
