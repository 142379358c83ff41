/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of verdicts.
 */
#include "clients/eval/score.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "engine/token/tokenizer.h"

enum { TEXT_BYTES_MAX = 16 << 20 };

static const char spaces[] = " \t\n\v\f\r";

int eval_expected(const struct eval_compare *c, const struct eval_rows *r,
                  const struct eval_row *row, struct buf *out, struct err *e)
{
    const int32_t *id = r->id.at + r->piece.at[row->piece].at + row->n_prompt;
    buf_clear(out);
    buf_str(out, "");
    return tokenizer_decode(c->tokenizer, id, (size_t)row->n_answer, true, out, e) ||
                   buf_check(out, "an answer", e)
               ? -1
               : 0;
}

static size_t trim(const char **text)
{
    *text += strspn(*text, spaces);
    size_t n = strlen(*text);
    while (n > 0 && strchr(spaces, (*text)[n - 1]))
        n--;
    return n;
}

static bool is_same(const struct eval_compare *c, const char *a, const char *b)
{
    size_t n = trim(&a);
    return n == trim(&b) && (c->ignores_case ? strncasecmp(a, b, n) : memcmp(a, b, n)) == 0;
}

static void judge_choice(const struct eval_rows *r, const struct eval_row *row,
                         const struct eval_said *s, struct eval_verdict *v, struct eval_score *out)
{
    double best = -INFINITY, best_norm = -INFINITY;
    v->choice = v->choice_norm = 0;
    for (size_t i = 0; i < row->n_piece; i++) {
        double p = s->logprob[row->piece + i];
        double norm = p / (double)r->piece.at[row->piece + i].n_char;
        if (p > best)
            v->choice = (int64_t)i;
        if (norm > best_norm)
            v->choice_norm = (int64_t)i;
        best = p > best ? p : best;
        best_norm = norm > best_norm ? norm : best_norm;
    }
    out->choice.n++;
    out->choice.n_right += v->choice == row->right;
    out->choice_norm.n++;
    out->choice_norm.n_right += v->choice_norm == row->right;
}

static void judge_text(const struct eval_row *row, const struct eval_said *s,
                       struct eval_score *out)
{
    for (size_t i = 0; i < row->n_piece; i++) {
        out->text_nll -= s->logprob[row->piece + i];
        out->text_tok += s->n_tok[row->piece + i];
    }
    out->text_word += row->n_word;
    out->text_byte += row->n_byte;
}

int eval_score(const struct eval_compare *c, const struct eval_rows *r, const struct eval_said *s,
               struct eval_verdict *verdict, struct eval_score *out, struct err *e)
{
    struct buf right;
    int rc = 0;
    *out = (struct eval_score){.answer_nll = 0};
    buf_init(&right, TEXT_BYTES_MAX);
    for (size_t i = 0; i < r->row.n && !rc; i++) {
        const struct eval_row *row = &r->row.at[i];
        switch (row->kind) {
        case EVAL_CHOICE:
            judge_choice(r, row, s, &verdict[i], out);
            break;
        case EVAL_TEXT:
            judge_text(row, s, out);
            break;
        case EVAL_ANSWER:
            rc = eval_expected(c, r, row, &right, e);
            verdict[i].is_right = !rc && is_same(c, s->text[i], right.data);
            out->exact.n++;
            out->exact.n_right += verdict[i].is_right;
            out->answer_nll -= s->logprob[row->piece];
            out->answer_tok += s->n_tok[row->piece];
            break;
        }
    }
    buf_release(&right);
    return rc;
}

double eval_share_of(struct eval_share s)
{
    return (double)s.n_right / (double)s.n;
}

double eval_share_error(struct eval_share s)
{
    double p = eval_share_of(s);
    return sqrt(p * (1 - p) / (double)(s.n - 1));
}
