/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/rerank, /v1/score and /v1/classify, also without /v1 and, as Cohere's clients ask, with
 * /v2. A classifier of one label reads a pair as one text and scores it; a model of vectors scores
 * a pair by how alike its texts' vectors are.
 */
#include <math.h>
#include <stdlib.h>

#include "api/reply_scores.h"
#include "engine/base/clock.h"
#include "server/answer/scores.h"
#include "server/answer/vectors.h"
#include "server/http/route.h"

struct scoring {
    struct vectors v;      /* first: what writes the answer casts from it */
    double *score;         /* in the arena: of each pair, or each label of each text */
    struct api_rank *rank; /* in the arena: of each document; NULL: they are not ordered */
};

static struct api_scored scored_of(const struct vectors *v, const char *prefix)
{
    const struct api_request *q = &v->at.q;
    const char *id = q->request_id ? q->request_id : call_request(v->call)->id;
    return (struct api_scored){
        .id = arena_printf(call_arena(v->call), "%s-%s", prefix, id ? id : "0"),
        .model = q->model,
        .created = clock_wall_us() / 1000000,
        .n_tok = vectors_tokens(v)};
}

static enum config_scores how_of(const struct vectors *v)
{
    return v->at.q.activates ? engine_info(v->at.engine)->scores : SCORES_PLAIN;
}

/* Of pair i: of its own numbers, or of two vectors, where all first texts stand before the others.
 */
static double score_of(const struct vectors *v, size_t i)
{
    const struct api_request *q = &v->at.q;
    size_t n;
    double score;
    if (engine_info(v->at.engine)->embeds) {
        const float *x = vectors_at(v, q->n_input > 1 ? i : 0, &n);
        return scores_alike(x, vectors_at(v, q->n_input + i, &n), n);
    }
    const float *x = vectors_at(v, i, &n);
    scores_show(how_of(v), x, 1, &score);
    return score;
}

/* What is no number comes last. */
static double place_of(const struct api_rank *r)
{
    return isnan(r->score) ? -INFINITY : r->score;
}

/* The best first, equals in the request's order. */
static int by_score(const void *x, const void *y)
{
    const struct api_rank *a = x, *b = y;
    if (place_of(a) != place_of(b))
        return place_of(a) > place_of(b) ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static void write_ranks(const struct vectors *v, struct jout *j)
{
    const struct scoring *s = (const struct scoring *)(const void *)v;
    const struct api_request *q = &v->at.q;
    const struct api_scored of = scored_of(v, "rerank");
    size_t n = q->n_document;
    for (size_t i = 0; i < n; i++)
        s->rank[i] = (struct api_rank){.index = i, .score = score_of(v, i)};
    qsort(s->rank, n, sizeof *s->rank, by_score);
    if (q->top_n > 0 && (size_t)q->top_n < n)
        n = (size_t)q->top_n;
    api_ranks_write(j, &of, s->rank, n, q->shows_documents ? q->document : NULL);
}

static void write_scores(const struct vectors *v, struct jout *j)
{
    const struct scoring *s = (const struct scoring *)(const void *)v;
    const struct api_scored of = scored_of(v, "score");
    for (size_t i = 0; i < v->at.q.n_document; i++)
        s->score[i] = score_of(v, i);
    api_scores_write(j, &of, s->score, v->at.q.n_document);
}

static void write_classes(const struct vectors *v, struct jout *j)
{
    const struct scoring *s = (const struct scoring *)(const void *)v;
    const struct engine_info *info = engine_info(v->at.engine);
    const struct api_scored of = scored_of(v, "classify");
    size_t n_label = (size_t)info->n_label, n;
    for (size_t i = 0; i < v->n; i++) {
        const float *x = vectors_at(v, i, &n);
        scores_show(how_of(v), x, n_label, s->score + i * n_label);
    }
    api_classes_write(j, &of, s->score, v->n, info->label, n_label);
}

/* Both sides as texts of their own, the first before the second. */
static int make_sides(struct vectors *v, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct api_request both = v->at.q;
    size_t n_first = both.n_input;
    struct api_input *in =
        arena_try(call_arena(v->call), n_first + both.n_document, sizeof *in, &why);
    if (!in)
        return api_fail_err(e, &why, NULL);
    for (size_t i = 0; i < n_first; i++)
        in[i] = both.input[i];
    for (size_t i = 0; i < both.n_document; i++)
        in[n_first + i] = both.document[i];
    both.input = in;
    both.n_input = n_first + both.n_document;
    return prompts_make(v->at.engine, &both, call_arena(v->call), &v->prompt, &v->n, e);
}

/* max_tokens_per_doc cuts what stands behind a query; a text alone has truncate_prompt_tokens. */
static int check_vectors(const struct vectors *v, struct api_error *e)
{
    if (!v->at.q.max_doc)
        return 0;
    return api_fail(e, 400, "unsupported_parameter", "max_tokens_per_doc",
                    "This model scores by vectors of whole texts; see truncate_prompt_tokens.");
}

static int make(struct scoring *s, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct vectors *v = &s->v;
    const struct engine_info *info = engine_info(v->at.engine);
    struct arena *a = call_arena(v->call);
    int rc = v->at.q.route == API_CLASSIFY
                 ? prompts_make(v->at.engine, &v->at.q, a, &v->prompt, &v->n, e)
             : info->embeds ? check_vectors(v, e) || make_sides(v, e)
                            : pairs_make(v->at.engine, &v->at.q, a, &v->prompt, &v->n, e);
    if (rc)
        return -1;
    size_t n = v->at.q.route == API_CLASSIFY ? v->n * (size_t)info->n_label : v->at.q.n_document;
    s->score = arena_try(a, n, sizeof *s->score, &why);
    s->rank = s->score ? arena_try(a, n, sizeof *s->rank, &why) : NULL;
    return s->rank ? 0 : api_fail_err(e, &why, NULL);
}

static void ask(struct call *c, enum api_route route,
                void (*write)(const struct vectors *v, struct jout *j))
{
    struct scoring *s = ARENA_NEW(call_arena(c), struct scoring);
    struct api_error e;
    s->v = (struct vectors){.call = c, .write = write};
    if (!generate_admit(c, route, &s->v.at))
        return;
    bool embeds = engine_info(s->v.at.engine)->embeds;
    if (make(s, &e))
        call_error(c, &e);
    else
        vectors_ask(&s->v, embeds ? GEN_EMBED : GEN_CLASSIFY,
                    route == API_RERANK  ? "documents"
                    : route == API_SCORE ? "text_2"
                                         : "input");
}

void route_rerank(struct call *c)
{
    ask(c, API_RERANK, write_ranks);
}

void route_plain_rerank(struct call *c)
{
    ask(c, API_RERANK, write_ranks);
}

void route_v2_rerank(struct call *c)
{
    ask(c, API_RERANK, write_ranks);
}

void route_score(struct call *c)
{
    ask(c, API_SCORE, write_scores);
}

void route_plain_score(struct call *c)
{
    ask(c, API_SCORE, write_scores);
}

void route_classify(struct call *c)
{
    ask(c, API_CLASSIFY, write_classes);
}

void route_plain_classify(struct call *c)
{
    ask(c, API_CLASSIFY, write_classes);
}
