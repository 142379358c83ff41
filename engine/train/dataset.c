/* SPDX-License-Identifier: Apache-2.0
 *
 * From texts to rows of tokens.
 */
#include "engine/train/dataset.h"

#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/base/siphash.h"

enum { TEXT_BYTES_MAX = 64 << 20, TOK_MAX = 1 << 24 };

/* A piece of the text that is to be learned. */
struct piece {
    size_t lo, hi;
};

void dataset_init(struct dataset *d, const struct dataset_options *o)
{
    *d = (struct dataset){.opt = *o};
}

void dataset_release(struct dataset *d)
{
    vec_release(&d->id);
    vec_release(&d->is_learned);
    vec_release(&d->row);
    vec_release(&d->left_out);
}

static void digest_row(struct dataset *d, const struct dataset_row *r)
{
    const struct siphash_key ids = {d->digest, 1}, learned = {d->digest, 2};
    uint64_t a = siphash(ids, d->id.at + r->at, (size_t)r->n * sizeof *d->id.at);
    d->digest = a ^ siphash(learned, d->is_learned.at + r->at, (size_t)r->n);
}

static void put(struct dataset *d, struct dataset_row *r, int32_t id, bool is_learned)
{
    vec_push(&d->id, id);
    vec_push(&d->is_learned, is_learned);
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
                       int64_t n, const struct piece *piece, size_t n_piece)
{
    size_t p = 0;
    for (int64_t i = 0; i < n; i++) {
        struct tok_span s = l->span[i];
        while (p < n_piece && piece[p].hi <= s.lo)
            p++;
        bool is_learned = p < n_piece && s.hi > piece[p].lo && s.hi > s.lo;
        put(d, r, l->id[i], is_learned && i > 0);
        p += is_learned && ends_turn(&d->opt, l->id[i]);
    }
}

/* The tokens of l become a row: those learned whose span meets a piece, and the token `end` behind
 * them (-1: none). */
static int add_row(struct dataset *d, const struct tok_list *l, const struct piece *piece,
                   size_t n_piece, int32_t end, struct err *e)
{
    struct dataset_row r = {.at = d->id.n, .example = d->example};
    bool has_end = end >= 0 && l->n > 0 && l->id[l->n - 1] == end;
    int64_t n = (int64_t)l->n - has_end, all = n + (end >= 0);
    if (all > d->opt.max_tok && d->opt.longer == DATASET_REFUSE)
        return err_set(e, ERR_TOO_LARGE, "%lld tokens: a row may have %lld", (long long)all,
                       (long long)d->opt.max_tok);
    r.is_cut = all > d->opt.max_tok;
    if (r.is_cut) {
        d->n_cut++;
        d->n_tok_cut += all - d->opt.max_tok;
    }
    put_tokens(d, &r, l, n < d->opt.max_tok ? n : d->opt.max_tok, piece, n_piece);
    if (end >= 0 && r.n < d->opt.max_tok)
        put(d, &r, end, r.n > 0);
    vec_push(&d->row, r);
    digest_row(d, &r);
    d->n_learn += r.n_learn;
    d->n_barren += r.n_learn == 0;
    d->longest = r.n > d->longest ? r.n : d->longest;
    return 0;
}

static int add_rendered(struct dataset *d, const struct template_out *out,
                        const struct piece *piece, size_t n_piece, struct err *e)
{
    struct tok_segment *seg = xcalloc(out->n_span + 1, sizeof *seg);
    struct tok_list list;
    size_t n = template_out_segments(out, seg);
    tok_list_init(&list, TOK_MAX, true);
    int rc = tokenizer_encode_segments(d->opt.tokenizer, seg, n, false, &list, e);
    if (!rc)
        rc = add_row(d, &list, piece, n_piece, -1, e);
    tok_list_release(&list);
    free(seg);
    return rc;
}

static int check_tokenizer(const struct dataset *d, struct err *e)
{
    return d->opt.tokenizer ? 0 : err_set(e, ERR_UNSUPPORTED, "the model has no tokenizer");
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
    if (template_render_turns(d->opt.template, &in, &out, &turns, e))
        return -1;
    struct piece *piece = xcalloc(turns.n + 1, sizeof *piece);
    size_t n = 0;
    for (size_t i = 0; i < turns.n; i++) {
        int64_t m = turns.at[i].message;
        bool is_left_out = weight && m >= 0 && (size_t)m < n_weight && weight[m] == 0;
        if (!is_left_out)
            piece[n++] = (struct piece){.lo = turns.at[i].begin, .hi = turns.at[i].end};
    }
    rc = add_rendered(d, &out, piece, n, e);
    free(piece);
    template_turns_release(&turns);
    template_out_release(&out);
    return rc;
}

int dataset_add_text(struct dataset *d, const char *prompt, size_t n_prompt, const char *completion,
                     size_t n_completion, struct err *e)
{
    const struct tok_segment seg[2] = {{.text = prompt, .len = n_prompt},
                                       {.text = completion, .len = n_completion}};
    const struct piece piece = {.lo = n_prompt, .hi = n_prompt + n_completion};
    struct tok_list list;
    if (check_tokenizer(d, e))
        return -1;
    tok_list_init(&list, TOK_MAX, true);
    int rc = tokenizer_encode_segments(d->opt.tokenizer, seg, 2, true, &list, e);
    if (!rc)
        rc = add_row(d, &list, &piece, 1, tokenizer_eos(d->opt.tokenizer), e);
    tok_list_release(&list);
    return rc;
}

struct train_row dataset_get(const struct dataset *d, size_t i, int32_t *label)
{
    const struct dataset_row *r = &d->row.at[i];
    for (int64_t k = 0; k < r->n; k++) {
        bool is_learned = k + 1 < r->n && d->is_learned.at[r->at + (size_t)k + 1];
        label[k] = is_learned ? d->id.at[r->at + (size_t)k + 1] : -1;
    }
    return (struct train_row){
        .id = d->id.at + r->at, .label = label, .n = r->n, .key = (uint64_t)i};
}
