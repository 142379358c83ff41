/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts, cut into windows.
 */
#include "api/value.h"
#include "clients/eval/rows_own.h"

enum { TOK_MAX = 1 << 26 };

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* What lies between white space, the nothing before a first one and behind a last one too: how
 * lm-evaluation-harness counts. */
static int64_t count_words(const char *text, size_t n)
{
    int64_t n_word = 1;
    for (size_t i = 0; i < n; i++)
        n_word += is_space(text[i]) && (i == 0 || !is_space(text[i - 1]));
    return n_word;
}

static int put_windows(struct eval_line *l, const struct tok_list *list, struct err *e)
{
    const int32_t first = eval_line_first(l);
    const struct row_part none = {.lo = 0};
    size_t done = 0, window = (size_t)l->window, k;
    for (; done < list->n; done += k) {
        k = list->n - done < window ? list->n - done : window;
        size_t from = done + k > window ? done + k - window - 1 : 0;
        size_t before = done - from;
        if (eval_line_piece(l, 0, e) ||
            (!done && first >= 0 && eval_line_put(l, &first, 1, none, e)))
            return -1;
        /* without a first token there is nothing that the text's own could be told from */
        struct row_part counted = {.lo = before + (!done && first < 0), .hi = before + k};
        if (eval_line_put(l, list->id + done - before, before + k, counted, e))
            return -1;
    }
    return 0;
}

int eval_read_text(struct eval_line *l, struct err *e)
{
    const json_t *v = value_member(l->json, "text");
    size_t n = json_string_length(v);
    struct tok_list list;
    if (!json_is_string(v) || n == 0)
        return err_set(e, ERR_BAD_INPUT, "'text' must be a text, and not empty");
    l->row.n_byte = (int64_t)n;
    l->row.n_word = count_words(json_string_value(v), n);
    tok_list_init(&list, TOK_MAX, false);
    int rc = tokenizer_encode(l->on->tokenizer, json_string_value(v), n, true, false, &list, e);
    if (!rc)
        rc = put_windows(l, &list, e);
    tok_list_release(&list);
    return rc;
}
