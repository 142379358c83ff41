/* SPDX-License-Identifier: Apache-2.0
 *
 * Both models run the same micro-batch, whose logits stand side by side until it is done. A row of
 * them is summed in f64, in the order of the vocabulary.
 */
#include "engine/quant/compare.h"

#include <math.h>

#include "engine/base/err.h"
#include "engine/eager/eager.h"

struct side {
    const struct model *model; /* borrowed */
    struct eager *eager;       /* owned */
    struct packed *packed;     /* owned */
    struct op_view logits;
    bool is_open;
};

static int side_run(struct side *s, const struct quant_texts *texts, size_t *next, struct err *e)
{
    static const struct eager_options plain = {.wants_grad = false};
    if (quant_texts_pack(texts, next, true, s->packed, e))
        return -1;
    eager_begin(s->eager, packed_batch(s->packed, 1, 0), &plain);
    s->is_open = true;
    struct builder *b = eager_builder(s->eager);
    struct val v = model_build(s->model, b, MODEL_LOGITS);
    if (b->failed)
        return err_set(e, b->err.code, "%s", b->err.msg);
    s->logits = eager_view(s->eager, v);
    return 0;
}

static void side_close(struct side *s)
{
    if (s->is_open)
        eager_end(s->eager);
    s->is_open = false;
}

/* log of the sum of exp(x), and where the greatest stands. */
static double log_sum(const float *x, int64_t n, int64_t *best)
{
    double sum = 0;
    *best = 0;
    for (int64_t i = 1; i < n; i++)
        *best = x[i] > x[*best] ? i : *best;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)x[*best]);
    return (double)x[*best] + log(sum);
}

static void compare_row(const float *p, const float *q, int64_t n, int32_t target,
                        struct quant_compared *out)
{
    int64_t best[2];
    double lp = log_sum(p, n, &best[0]), lq = log_sum(q, n, &best[1]), kl = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = (double)p[i] - lp, b = (double)q[i] - lq;
        kl += exp(a) * (a - b);
    }
    out->n_tok++;
    out->nll[0] += lp - (double)p[target];
    out->nll[1] += lq - (double)q[target];
    out->kl += kl;
    out->kl_worst = kl > out->kl_worst ? kl : out->kl_worst;
    out->agreed += best[0] == best[1];
}

/* Targets of the micro-batch that both have run: rows [lo, hi) of the texts. */
static void compare_rows(const struct side side[2], const struct quant_texts *texts, size_t lo,
                         size_t hi, struct quant_compared *out)
{
    int64_t row = 0, n = side[0].logits.shape.cols;
    for (; lo < hi; lo++)
        for (size_t i = quant_texts_begin(texts, lo) + 1; i < texts->end.at[lo]; i++, row++)
            compare_row(side[0].logits.p + row * side[0].logits.ld,
                        side[1].logits.p + row * side[1].logits.ld, n, texts->id.at[i], out);
}

static int compare_all(struct side side[2], const struct quant_texts *texts,
                       struct quant_compared *out, struct err *e)
{
    for (size_t lo = 0, hi; lo < texts->end.n; lo = hi) {
        for (int i = 0; i < 2; i++) {
            hi = lo;
            if (side_run(&side[i], texts, &hi, e))
                return -1;
        }
        compare_rows(side, texts, lo, hi, out);
        side_close(&side[0]);
        side_close(&side[1]);
    }
    return 0;
}

int quant_compare(const struct model *first, const struct model *second,
                  const struct quant_texts *texts, struct stream *s, struct quant_compared *out,
                  struct err *e)
{
    struct side side[2] = {{.model = first}, {.model = second}};
    int rc = 0;
    *out = (struct quant_compared){0};
    for (int i = 0; i < 2 && !rc; i++) {
        side[i].packed = quant_texts_packed(texts, side[i].model, s, e);
        side[i].eager = side[i].packed ? eager_new(s, e) : NULL;
        rc = side[i].eager ? 0 : -1;
    }
    if (!rc)
        rc = compare_all(side, texts, out, e);
    for (int i = 0; i < 2; i++) {
        side_close(&side[i]);
        eager_free(side[i].eager);
        packed_free(side[i].packed);
    }
    double n = out->n_tok ? (double)out->n_tok : 1;
    out->nll[0] /= n;
    out->nll[1] /= n;
    out->kl /= n;
    out->agreed /= n;
    return rc;
}
