/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/embeddings, and Ollama's /api/embed and /api/embeddings: every input is a sequence that
 * gives one vector.
 */
#include <math.h>

#include "api/face.h"
#include "engine/base/clock.h"
#include "server/answer/vectors.h"
#include "server/http/route.h"

struct embedding {
    struct vectors v; /* first: what writes the answer casts from it */
    float *cut;       /* in the arena: [dimensions]; NULL: vectors are shown whole */
};

/* The first numbers of a vector, of length 1 again where the model's are. */
static const float *cut(const struct embedding *m, const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    for (size_t i = 0; i < n; i++)
        m->cut[i] =
            engine_info(m->v.at.engine)->normalizes && sum > 0 ? (float)(v[i] / sqrt(sum)) : v[i];
    return m->cut;
}

static void write_vectors(const struct vectors *v, struct jout *j)
{
    const struct embedding *m = (const struct embedding *)(const void *)v;
    const struct api_request *q = &v->at.q;
    const struct api_vectors_face *face = api_vectors_face(q->route);
    const struct api_usage u = {.prompt = vectors_tokens(v)};
    face->begin(j);
    for (size_t i = 0; i < v->n; i++) {
        size_t n;
        const float *x = vectors_at(v, i, &n);
        if (m->cut) {
            n = (size_t)q->dimensions;
            x = cut(m, x, n);
        }
        face->write(j, (int64_t)i, x, n, q->as_base64);
    }
    face->end(j, q->model, &u, clock_us() - v->submit_us);
}

static int make(struct embedding *m, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct arena *a = call_arena(m->v.call);
    int64_t n_cut = m->v.at.q.dimensions, all = engine_info(m->v.at.engine)->n_vector;
    if (prompts_make(m->v.at.engine, &m->v.at.q, a, &m->v.prompt, &m->v.n, e))
        return -1;
    if (n_cut <= 0 || n_cut >= all)
        return 0;
    m->cut = arena_try(a, (size_t)n_cut, sizeof *m->cut, &why);
    return m->cut ? 0 : api_fail_err(e, &why, "dimensions");
}

static void embed(struct call *c, enum api_route route)
{
    struct embedding *m = ARENA_NEW(call_arena(c), struct embedding);
    struct api_error e;
    m->v = (struct vectors){.call = c, .write = write_vectors};
    if (!generate_admit(c, route, &m->v.at))
        return;
    if (make(m, &e))
        call_error(c, &e);
    else
        vectors_ask(&m->v, GEN_EMBED, route == API_OLLAMA_VECTOR ? "prompt" : "input");
}

void route_embeddings(struct call *c)
{
    embed(c, API_EMBEDDINGS);
}

void route_ollama_embed(struct call *c)
{
    embed(c, API_OLLAMA_EMBED);
}

void route_ollama_vector(struct call *c)
{
    embed(c, API_OLLAMA_VECTOR);
}

/* Where llama.cpp's clients ask. */
void route_plain_embeddings(struct call *c)
{
    route_embeddings(c);
}
