/* SPDX-License-Identifier: Apache-2.0
 *
 * A measure is a row of the table and a member of the JSON: one list for both.
 */
#include "clients/eval/report.h"

#include <math.h>
#include <stdio.h>

#include "api/jout.h"
#include "engine/base/opt.h"

enum { TITLE_COLUMNS = 24, NAME_COLUMNS = 13, TEXT_BYTES_MAX = 16 << 20, HEAD_BYTES_MAX = 1 << 16 };

/* ---- measures ------------------------------------------------------------------------------ */

struct measure {
    const char *title, *json;
    size_t share;                                      /* of eval_score, or: */
    double (*number)(const struct eval_score *, bool); /* true: is it measured at all? */
    int digits;
};

static double over(double nll, int64_t n)
{
    return exp(nll / (double)n);
}

static double answer_perplexity(const struct eval_score *s, bool asks)
{
    return asks ? s->answer_tok > 0 : over(s->answer_nll, s->answer_tok);
}

static double text_perplexity(const struct eval_score *s, bool asks)
{
    return asks ? s->text_tok > 0 : over(s->text_nll, s->text_tok);
}

static double word_perplexity(const struct eval_score *s, bool asks)
{
    return asks ? s->text_tok > 0 : over(s->text_nll, s->text_word);
}

static double byte_perplexity(const struct eval_score *s, bool asks)
{
    return asks ? s->text_tok > 0 : over(s->text_nll, s->text_byte);
}

static double bits_per_byte(const struct eval_score *s, bool asks)
{
    return asks ? s->text_tok > 0 : s->text_nll / (double)s->text_byte / log(2);
}

#define SHARE(title_, json_, member_)                                                              \
    {                                                                                              \
        .title = (title_), .json = (json_), .share = offsetof(struct eval_score, member_)          \
    }
#define NUMBER(title_, json_, number_, digits_)                                                    \
    {                                                                                              \
        .title = (title_), .json = (json_), .number = (number_), .digits = (digits_)               \
    }

static const struct measure measures[] = {
    SHARE("answers said exactly", "exact_match", exact),
    NUMBER("  perplexity, a token", "answer_perplexity", answer_perplexity, 4),
    SHARE("right choice", "acc", choice),
    SHARE("  over its characters", "acc_norm", choice_norm),
    NUMBER("text perplexity, a token", "perplexity", text_perplexity, 4),
    NUMBER("  a word", "word_perplexity", word_perplexity, 4),
    NUMBER("  a byte", "byte_perplexity", byte_perplexity, 4),
    NUMBER("  bits a byte", "bits_per_byte", bits_per_byte, 4),
};
enum { N_MEASURE = sizeof measures / sizeof *measures };

static struct eval_share share_of(const struct measure *m, const struct eval_score *s)
{
    return *(const struct eval_share *)((const char *)s + m->share);
}

static bool is_measured(const struct measure *m, const struct eval_score *s)
{
    return m->number ? m->number(s, true) > 0 : share_of(m, s).n > 0;
}

/* ---- a table ------------------------------------------------------------------------------- */

static void put_head(const struct eval_report *r, int width, struct buf *out)
{
    static const char *const kind[] = {"answer", "choice", "text"};
    const char *between = "";
    struct buf head;
    size_t at = 0;
    buf_init(&head, HEAD_BYTES_MAX);
    buf_printf(&head, "%s (%s) on %s: ", r->model, r->weights, r->file);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        int64_t n = r->rows->n_of[i];
        if (n == 0)
            continue;
        buf_printf(&head, "%s%lld %s%s", between, (long long)n, kind[i], n == 1 ? "" : "s");
        between = ", ";
    }
    opt_words(out, head.data, 0, width, &at);
    buf_char(out, '\n');
    buf_release(&head);
}

/* "81.3% +-2.1", or a number; what is too large for the column has no digits behind its point. */
static void put_cell(const struct measure *m, const struct eval_score *s, struct buf *out)
{
    char text[64];
    struct eval_share share = share_of(m, s);
    if (!m->number && share.n > 1)
        snprintf(text, sizeof text, "%.1f%% +-%.1f", 100 * eval_share_of(share),
                 100 * eval_share_error(share));
    else if (!m->number)
        snprintf(text, sizeof text, "%.1f%%", 100 * eval_share_of(share));
    else if (m->number(s, false) < 1e6)
        snprintf(text, sizeof text, "%.*f", m->digits, m->number(s, false));
    else
        snprintf(text, sizeof text, "%.3e", m->number(s, false));
    buf_printf(out, "  %*s", NAME_COLUMNS - 1, text);
}

static void put_results(const struct eval_report *r, size_t lo, size_t hi, struct buf *out)
{
    buf_printf(out, "\n%-*s", TITLE_COLUMNS, "");
    for (size_t i = lo; i < hi; i++)
        buf_printf(out, "  %*.*s", NAME_COLUMNS - 1, NAME_COLUMNS - 1, r->result[i].name);
    buf_char(out, '\n');
    for (int k = 0; k < N_MEASURE; k++) {
        if (!is_measured(&measures[k], &r->result[0].score))
            continue;
        buf_printf(out, "%-*s", TITLE_COLUMNS, measures[k].title);
        for (size_t i = lo; i < hi; i++)
            put_cell(&measures[k], &r->result[i].score, out);
        buf_char(out, '\n');
    }
}

/* As many models beside each other as there is room for, the others below. */
void eval_report_table(const struct eval_report *r, int width, struct buf *out)
{
    int room = (width - TITLE_COLUMNS) / (NAME_COLUMNS + 1);
    size_t each = room > 0 ? (size_t)room : 1;
    put_head(r, width, out);
    for (size_t lo = 0; lo < r->n; lo += each)
        put_results(r, lo, lo + each < r->n ? lo + each : r->n, out);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void put_measure(struct jout *j, const struct measure *m, const struct eval_score *s)
{
    char key[64];
    if (m->number) {
        jout_put_num(j, m->json, m->number(s, false));
        return;
    }
    jout_put_num(j, m->json, eval_share_of(share_of(m, s)));
    snprintf(key, sizeof key, "%s_stderr", m->json);
    jout_put_num(j, key, eval_share_error(share_of(m, s)));
}

void eval_report_json(const struct eval_report *r, struct buf *out)
{
    struct jout j = jout_on(out);
    jout_open(&j, '{');
    jout_put_str(&j, "model", r->model);
    jout_put_str(&j, "weights", r->weights);
    jout_put_str(&j, "file", r->file);
    jout_put_int(&j, "answers", r->rows->n_of[EVAL_ANSWER]);
    jout_put_int(&j, "choices", r->rows->n_of[EVAL_CHOICE]);
    jout_put_int(&j, "texts", r->rows->n_of[EVAL_TEXT]);
    jout_key(&j, "results");
    jout_open(&j, '[');
    for (size_t i = 0; i < r->n; i++) {
        jout_open(&j, '{');
        jout_put_str(&j, "name", r->result[i].name);
        for (int k = 0; k < N_MEASURE; k++)
            if (is_measured(&measures[k], &r->result[i].score))
                put_measure(&j, &measures[k], &r->result[i].score);
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_close(&j, '}');
    buf_char(out, '\n');
}

/* ---- row by row ---------------------------------------------------------------------------- */

static void put_choice(struct jout *j, const struct eval_row *row, const struct eval_result *t,
                       const struct eval_verdict *v)
{
    jout_key(j, "logprobs");
    jout_open(j, '[');
    for (size_t i = 0; i < row->n_piece; i++)
        jout_num(j, t->said.logprob[row->piece + i]);
    jout_close(j, ']');
    jout_put_int(j, "choice", v->choice);
    jout_put_int(j, "choice_norm", v->choice_norm);
    jout_put_bool(j, "right", v->choice == row->right);
}

static void put_likelihood(struct jout *j, const struct eval_row *row, const struct eval_result *t)
{
    double logprob = 0;
    int64_t n_tok = 0;
    for (size_t i = 0; i < row->n_piece; i++) {
        logprob += t->said.logprob[row->piece + i];
        n_tok += t->said.n_tok[row->piece + i];
    }
    jout_put_num(j, "logprob", logprob);
    jout_put_int(j, "tokens", n_tok);
}

static void put_result(struct jout *j, const struct eval_row *row, const struct eval_result *t,
                       size_t i)
{
    jout_open(j, '{');
    jout_put_str(j, "name", t->name);
    if (row->kind == EVAL_CHOICE) {
        put_choice(j, row, t, &t->verdict[i]);
    } else {
        if (row->kind == EVAL_ANSWER) {
            jout_put_str(j, "text", t->said.text[i]);
            jout_put_bool(j, "right", t->verdict[i].is_right);
        }
        put_likelihood(j, row, t);
    }
    jout_close(j, '}');
}

int eval_report_row(const struct eval_report *r, size_t i, struct buf *out, struct err *e)
{
    static const char *const kind[] = {"answer", "choice", "text"};
    const struct eval_row *row = &r->rows->row.at[i];
    struct jout j = jout_on(out);
    struct buf right;
    buf_init(&right, TEXT_BYTES_MAX);
    int rc = row->kind == EVAL_ANSWER ? eval_expected(&r->compare, r->rows, row, &right, e) : 0;
    jout_open(&j, '{');
    jout_put_int(&j, "line", row->line);
    jout_put_str(&j, "kind", kind[row->kind]);
    if (row->kind == EVAL_ANSWER)
        jout_put_str(&j, "answer", right.data);
    if (row->kind == EVAL_CHOICE)
        jout_put_int(&j, "answer", row->right);
    jout_key(&j, "results");
    jout_open(&j, '[');
    for (size_t k = 0; k < r->n; k++)
        put_result(&j, row, &r->result[k], i);
    jout_close(&j, ']');
    jout_close(&j, '}');
    buf_char(out, '\n');
    buf_release(&right);
    return rc;
}
