/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that take a token where the logits lie. Faults they can catch: a cut of the wrong
 * set, a draw in the wrong order or one entry off at a boundary, an entry without weight or behind
 * a mask that is drawn, sums that overflow or lose a long tail, a search that leaves out what the
 * bins held, changes in another order than the sampler's, a token written where the host knew it.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/logits.h"

/* What is entered, over the temperature, in the order in which it is drawn. */
static int64_t enter(struct entry *e, const float *x, int64_t n, const struct k_sample_how *h)
{
    int64_t n_in = 0;
    float max = -INFINITY, top;
    bool is_plain = !(h->scale < 1) && !(h->scale > 1);
    bool is_cut = h->top_k > 0 || h->top_p < 1 || h->min_p > 0;
    for (int64_t j = 0; j < n; j++)
        max = x[j] > max ? x[j] : max;
    top = is_plain ? max : 0;
    for (int64_t j = 0; j < n; j++) {
        float v = is_plain ? x[j] : x[j] == max ? 0 : (x[j] - max) * h->scale;
        if (x[j] > -INFINITY && v > -INFINITY)
            e[n_in++] = (struct entry){v == top ? 1 : exp((double)v - top), v, (int32_t)j};
    }
    if (is_cut)
        qsort(e, (size_t)n_in, sizeof *e, entry_order);
    return n_in;
}

/* How many of the sorted row are left. *margin: how near a cut passed by an entry, relative. */
static int64_t cut(const struct entry *e, int64_t n, const struct k_sample_how *h, double *margin)
{
    double total = 0, sum = 0;
    int64_t left;
    n = h->top_k > 0 && h->top_k < n ? h->top_k : n;
    for (int64_t i = 0; i < n; i++)
        total += e[i].w;
    for (left = 0; left < n; left++) {
        double reach = h->top_p >= 1 ? INFINITY : (double)h->top_p * total;
        if (left > 0 && reach < INFINITY)
            *margin = fmin(*margin, fabs(sum / reach - 1));
        if (left > 0 && h->min_p > 0)
            *margin = fmin(*margin, fabs(e[left].w / h->min_p - 1));
        if (left > 0 && (sum >= reach || e[left].w < h->min_p))
            break;
        sum += e[left].w;
    }
    return left;
}

/* The token stands where u of the sum is, as nearly as weights of f32 say it. */
static void row_judge(struct check *c, const struct k_sample *a, int64_t row, struct entry *e)
{
    enum { NEAR = 100000 };
    const struct k_sample_how *h = &a->how[row];
    int64_t n = enter(e, a->logits + row * a->ld, a->n, h), at = -1;
    double margin = 1, sum = 0, before = 0, total = 0;
    int32_t id = a->id[row];
    if (n == 0) {
        check_true(c, id == -1, "row %lld of nothing: %d", (long long)row, id);
        return;
    }
    if (h->scale <= 0) {
        const float *x = a->logits + row * a->ld;
        bool is_it = id >= 0 && id < a->n;
        for (int64_t j = 0; is_it && j < a->n; j++)
            is_it = !(x[j] > x[id]) && !(j < id && x[j] == x[id]);
        check_true(c, is_it, "row %lld: %d is not the largest", (long long)row, id);
        return;
    }
    n = cut(e, n, h, &margin);
    for (int64_t i = 0; i < n; i++) {
        if (e[i].id == id) {
            at = i;
            before = total;
        }
        total += e[i].w;
        sum = at == i ? total : sum;
    }
    if (margin * NEAR < 1 && at < 0) /* rounding may fall either way there */
        return;
    double u = h->u * total, near = total / NEAR;
    check_true(c, at >= 0 && e[at].w > 0 && u >= before - near && u <= sum + near,
               "row %lld: u %g drew %d, entry %lld of %lld, [%g, %g) of %g", (long long)row, h->u,
               id, (long long)at, (long long)n, before, sum, total);
}

static void sample_run(struct check *c, enum logit_shape shape, int64_t n,
                       const struct k_sample_how *h)
{
    static const double u[] = {0, 1e-12, 0.3, 0.5, 0.97, 1 - 0x1p-53};
    int64_t ld = n + 1, m = n < 10000 ? 9 : 2;
    check_begin(c);
    check_case(c, "shape %d n %lld scale %g top_k %d top_p %g min_p %g", shape, (long long)n,
               (double)h->scale, h->top_k, (double)h->top_p, (double)h->min_p);
    float *x = check_floats(c, m * ld, CHECK_NAN);
    struct k_sample_how *how = check_buf(c, (size_t)m * sizeof *how, 8);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            x[i * ld + j] = i == 7 && n < 10000 ? -INFINITY : logit(c, shape, j, n);
        how[i] = *h;
        how[i].u = i < 6 && m > 6 ? u[i] : check_unit(c);
    }
    size_t ids = (size_t)m * sizeof(int32_t);
    struct k_sample a = {
        .logits = x, .ld = ld, .m = m, .n = n, .how = how, .id = check_buf(c, ids, 4)};
    struct check_out out[] = {{a.id, ids}};
    if (h->top_k % 2 == 0) { /* the largest is known, but of rows that were changed behind that */
        struct k_best *best = check_buf(c, (size_t)m * sizeof *best, 4);
        check_run_row(c, K_argmax,
                      &(struct k_argmax){.x = x, .ld = ld, .m = m, .n = n, .best = best});
        for (int64_t i = 0; i < m; i += 2) {
            how[i].is_edited = 1;
            best[i] = (struct k_best){100, 0, 1};
        }
        a.best = best;
    }
    check_slices(c, &a, out, 1);
    struct entry *e = check_buf(c, (size_t)n * sizeof *e + sizeof *e, 8);
    for (int64_t i = 0; i < m; i++)
        row_judge(c, &a, i, e);
}

void check_sample(struct check *c)
{
    static const struct k_sample_how how[] = {
        {.scale = 1, .top_p = 1},
        {.scale = 0, .top_p = 0.5f},
        {.scale = 1.25f, .top_p = 0.9f},
        {.scale = 1, .top_p = 1, .top_k = 40},
        {.scale = 0.5f, .top_p = 1},
        {.scale = 0.3f, .top_p = 0.999f},
        {.scale = 1, .top_p = 0.8f, .top_k = 50, .min_p = 0.1f},
        {.scale = 2, .top_p = 1, .min_p = 0.05f},
        {.scale = 1e3f, .top_p = 0.95f, .top_k = 100},
        {.scale = 0.05f, .top_p = 0.97f, .top_k = 3000, .min_p = 1e-4f},
        {.scale = 1, .top_p = 1e-9f},
        {.scale = 1, .top_p = 1, .top_k = 1},
    };
    static const int64_t sizes[] = {1, 2, 17, 33, 300, 1025};
    enum { N_HOW = sizeof how / sizeof *how };
    for (int shape = 0; shape < SHAPES; shape++) {
        for (int i = 0; i < 6; i++)
            for (int k = 0; k < N_HOW; k++)
                sample_run(c, shape, sizes[i], &how[k]);
        sample_run(c, shape, 20000, &how[shape * 2]); /* more than a list holds, where it is flat */
    }
    sample_run(c, SHAPE_NORMAL, 20000, &how[5]);
    sample_run(c, SHAPE_EQUAL, 20000, &how[3]);
}

/* ---- edits --------------------------------------------------------------------------------- */

enum { EDIT_ROWS = 3, EDIT_N = 700 };

static float changed(const struct k_edit_row *h, float x, int n_answer, float bias, bool is_ban)
{
    double y = (double)x;
    if (n_answer >= 0) {
        y = y > 0 ? y / h->repetition : y * h->repetition;
        y -= h->frequency * n_answer;
        y -= n_answer > 0 ? h->presence : 0;
        y = (double)(float)fmin(fmax(y, -(double)FLT_MAX), (double)FLT_MAX);
    }
    y = (double)(float)fmin(fmax(y + (double)bias, -(double)FLT_MAX), (double)FLT_MAX);
    return is_ban ? -INFINITY : (float)y;
}

/* Every third token was seen, every fifth is biased, every seventh banned. */
static int32_t edits_fill(struct k_edit *e, struct k_edit_row *h)
{
    int32_t n = 0;
    for (int32_t j = 0; j < EDIT_N; j += 3)
        e[n++] = (struct k_edit){j, (float)(j % 4)};
    h->n_seen = n;
    for (int32_t j = 0; j < EDIT_N; j += 5)
        e[n++] = (struct k_edit){EDIT_N - 5 - j, (float)(j % 9) - 4.25f};
    h->n_bias = n - h->n_seen;
    for (int32_t j = 0; j < EDIT_N; j += 7)
        e[n++] = (struct k_edit){j, 0};
    e[n++] = (struct k_edit){-1, 0};
    e[n++] = (struct k_edit){EDIT_N, 0};
    h->n_ban = n - h->n_seen - h->n_bias;
    return n;
}

void check_logit_edit(struct check *c)
{
    static const double penalty[EDIT_ROWS][3] = {{1.3, 0.25, 0.5}, {0.5, -2, 2}, {1, 0, 0}};
    static const int32_t rows[EDIT_ROWS] = {4, 0, 2};
    enum { LD = EDIT_N + 2, M = 5 };
    struct k_edit_row how[EDIT_ROWS];
    check_begin(c);
    check_case(c, "penalties, biases and bans");
    float *x = check_floats(c, M * LD, CHECK_RANDOM), *was = check_dup(c, x, M * LD * 4, 4);
    x[2 * LD + 9] = was[2 * LD + 9] = FLT_MAX;
    x[5] = was[5] = -FLT_MAX;
    struct k_edit *edit = check_buf(c, (size_t)EDIT_ROWS * EDIT_N * sizeof *edit, 4);
    int32_t n = 0;
    for (int i = 0; i < EDIT_ROWS; i++) {
        how[i] =
            (struct k_edit_row){penalty[i][0], penalty[i][1], penalty[i][2], rows[i], n, 0, 0, 0};
        n += edits_fill(edit + n, &how[i]);
    }
    struct k_logit_edit a = {.logits = x,
                             .ld = LD,
                             .n = EDIT_N,
                             .m = EDIT_ROWS,
                             .how = check_dup(c, how, sizeof how, 8),
                             .edit = edit};
    struct check_out out[] = {{x, (size_t)M * LD * sizeof *x}};
    check_slices(c, &a, out, 1);
    for (int i = 0; i < EDIT_ROWS; i++)
        for (int32_t j = 0; j < EDIT_N; j++) {
            float *w = &was[rows[i] * LD + j];
            float bias = j % 5 == 0 ? (float)((EDIT_N - 5 - j) % 9) - 4.25f : 0;
            *w = changed(&how[i], *w, j % 3 ? -1 : j % 4, bias, j % 7 == 0);
        }
    check_true(c, memcmp(x, was, (size_t)M * LD * sizeof *x) == 0,
               "a change, or what none was for");
}

/* ---- what goes with it --------------------------------------------------------------------- */

void check_pick(struct check *c)
{
    enum { M = 5, N = 130, LD = 140 };
    static const int64_t n_id[] = {1, 20, 67, 300};
    for (int k = 0; k < 4; k++) {
        int64_t all = M * n_id[k];
        check_begin(c);
        check_case(c, "%lld of a row", (long long)n_id[k]);
        float *x = check_floats(c, M * LD, CHECK_RANDOM);
        int32_t *id = check_buf(c, (size_t)all * sizeof *id, 4);
        for (int64_t i = 0; i < all; i++)
            id[i] = i % 17 == 5 ? -1 : i % 17 == 9 ? N : (int32_t)check_below(c, N);
        size_t bytes = (size_t)all * sizeof(float);
        struct k_pick a = {.x = x,
                           .ld = LD,
                           .m = M,
                           .n = N,
                           .id = id,
                           .y = check_buf(c, bytes, 4),
                           .n_id = n_id[k]};
        struct check_out out[] = {{a.y, bytes}};
        check_slices(c, &a, out, 1);
        bool is_good = true;
        for (int64_t i = 0; i < all; i++) {
            float want = id[i] < 0 || id[i] == N ? 0 : x[i / n_id[k] * LD + id[i]];
            is_good = is_good && !(a.y[i] < want) && !(a.y[i] > want);
        }
        check_true(c, is_good, "another number than the row has");
    }
}

void check_token_feed(struct check *c)
{
    static const int32_t id[] = {7, -1, 0, 1000000};
    static const int64_t sizes[] = {1, 5, 64, 65, 300, 2000};
    for (int k = 0; k < 6; k++) {
        int64_t n = sizes[k];
        check_begin(c);
        check_case(c, "%lld tokens", (long long)n);
        size_t bytes = (size_t)n * sizeof(int32_t);
        int32_t *token = check_buf(c, bytes, 4), *from = check_buf(c, bytes, 4);
        for (int64_t i = 0; i < n; i++) {
            token[i] = (int32_t)(i + 50);
            from[i] = (int32_t)check_below(c, 5) - 1;
        }
        struct k_token_feed a = {
            .token = token, .from = from, .id = check_dup(c, id, sizeof id, 4), .n = n};
        struct check_out out[] = {{token, bytes}};
        check_slices(c, &a, out, 1);
        bool is_good = true;
        for (int64_t i = 0; i < n; i++) {
            int32_t want = from[i] < 0 ? (int32_t)(i + 50) : id[from[i]] < 0 ? 0 : id[from[i]];
            is_good = is_good && token[i] == want;
        }
        check_true(c, is_good, "another token than the last step's, or the host's");
    }
}
