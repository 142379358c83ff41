/* SPDX-License-Identifier: Apache-2.0
 *
 * See reply_scores.h. Numbers are written as they were computed, the shortest that read back alike.
 */
#include "api/reply_scores.h"

static void put_usage(struct jout *j, int64_t n_tok)
{
    jout_key(j, "usage");
    jout_open(j, '{');
    jout_put_int(j, "prompt_tokens", n_tok);
    jout_put_int(j, "total_tokens", n_tok);
    jout_close(j, '}');
}

static void put_rank(struct jout *j, const struct api_rank *r, const struct api_input *document)
{
    jout_open(j, '{');
    jout_put_int(j, "index", (int64_t)r->index);
    if (document) {
        jout_key(j, "document");
        jout_open(j, '{');
        jout_put_bytes(j, "text", document[r->index].text, document[r->index].n_text);
        jout_close(j, '}');
    }
    jout_put_num(j, "relevance_score", r->score);
    jout_close(j, '}');
}

void api_ranks_write(struct jout *j, const struct api_scored *of, const struct api_rank *rank,
                     size_t n, const struct api_input *document)
{
    jout_open(j, '{');
    jout_put_str(j, "id", of->id);
    jout_put_str(j, "model", of->model);
    put_usage(j, of->n_tok);
    jout_key(j, "results");
    jout_open(j, '[');
    for (size_t i = 0; i < n; i++)
        put_rank(j, &rank[i], document);
    jout_close(j, ']');
    jout_close(j, '}');
}

static void open_list(struct jout *j, const struct api_scored *of)
{
    jout_open(j, '{');
    jout_put_str(j, "id", of->id);
    jout_put_str(j, "object", "list");
    jout_put_int(j, "created", of->created);
    jout_put_str(j, "model", of->model);
    jout_key(j, "data");
    jout_open(j, '[');
}

static void close_list(struct jout *j, const struct api_scored *of)
{
    jout_close(j, ']');
    put_usage(j, of->n_tok);
    jout_close(j, '}');
}

void api_scores_write(struct jout *j, const struct api_scored *of, const double *score, size_t n)
{
    open_list(j, of);
    for (size_t i = 0; i < n; i++) {
        jout_open(j, '{');
        jout_put_int(j, "index", (int64_t)i);
        jout_put_str(j, "object", "score");
        jout_put_num(j, "score", score[i]);
        jout_close(j, '}');
    }
    close_list(j, of);
}

static void put_class(struct jout *j, size_t index, const double *prob, const char *const *label,
                      size_t n_label)
{
    size_t best = 0;
    for (size_t i = 1; i < n_label; i++)
        best = prob[i] > prob[best] ? i : best;
    jout_open(j, '{');
    jout_put_int(j, "index", (int64_t)index);
    jout_put_str(j, "label", label[best]);
    jout_key(j, "probs");
    jout_open(j, '[');
    for (size_t i = 0; i < n_label; i++)
        jout_num(j, prob[i]);
    jout_close(j, ']');
    jout_put_int(j, "num_classes", (int64_t)n_label);
    jout_close(j, '}');
}

void api_classes_write(struct jout *j, const struct api_scored *of, const double *probs, size_t n,
                       const char *const *label, size_t n_label)
{
    open_list(j, of);
    for (size_t i = 0; i < n; i++)
        put_class(j, i, probs + i * n_label, label, n_label);
    close_list(j, of);
}
