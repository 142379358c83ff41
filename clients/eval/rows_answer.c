/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of supervised training: what training would learn is counted, and the last answer is what
 * the model is asked for.
 */
#include "api/train_row.h"
#include "clients/eval/rows_own.h"

int eval_line_example(const struct eval_line *l, const char *text, size_t n, struct dataset *d,
                      struct row_part *last, struct err *e)
{
    const struct resident *on = l->on;
    struct train_said said = {.unread = ""};
    const struct train_wants wants = {
        .knows_developer = on->template && template_mentions(on->template, "developer")};
    struct train_example x;
    dataset_init(d, &(struct dataset_options){.tokenizer = on->tokenizer,
                                              .template = on->template,
                                              .max_tok = l->ctx,
                                              .longer = DATASET_REFUSE,
                                              .now = l->now,
                                              .end_id = on->dir.generation.eos,
                                              .n_end_id = on->dir.generation.n_eos});
    if (api_train_read(&said, l->arena, text, n, wants, &x, e))
        return -1;
    if (x.kind == TRAIN_PREFERENCE)
        return err_set(e, ERR_BAD_INPUT,
                       "it is a preference, which says of no answer that it is "
                       "right");
    if (x.kind == TRAIN_CHAT
            ? dataset_add_chat(d, &x.messages, x.has_tools ? &x.tools : NULL, x.weight, x.n_weight,
                               e)
            : dataset_add_text(d, x.prompt, x.n_prompt, x.completion, x.n_completion, e))
        return -1;
    last->hi = d->is_learned.n;
    while (last->hi > 0 && !d->is_learned.at[last->hi - 1])
        last->hi--;
    last->lo = last->hi;
    while (last->lo > 0 && d->is_learned.at[last->lo - 1])
        last->lo--;
    return last->lo < last->hi
               ? 0
               : err_set(e, ERR_BAD_INPUT, "there is nothing in it that the model is to say");
}

int eval_read_answer(struct eval_line *l, struct err *e)
{
    struct eval_rows *r = l->rows;
    struct row_part last;
    struct dataset d;
    int rc = eval_line_example(l, l->text, l->n_text, &d, &last, e);
    if (!rc)
        rc = eval_line_piece(l, 0, e) ||
                     eval_line_put(l, d.id.at, d.id.n, (struct row_part){.lo = 0}, e)
                 ? -1
                 : 0;
    for (size_t i = 0; i < d.id.n && !rc; i++)
        r->is_counted.at[r->id.n - d.id.n + i] = d.is_learned.at[i];
    l->row.n_prompt = (int64_t)last.lo;
    l->row.n_answer = (int64_t)(last.hi - last.lo);
    dataset_release(&d);
    return rc;
}
