/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts become lists of numbers, characters or words, and measures are of lists. Words of both
 * texts are sorted once to be numbered; what two lists have in common of runs of n is found by
 * sorting the runs.
 */
#include "api/similarity.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_MAX = 5, BLEU_ORDER = 4 };

static const double CELLS_MAX = 1 << 27; /* of a table of both lengths: a part of a second */

const char *similarity_name(enum similarity s)
{
    static const char *const name[SIMILARITY_COUNT] = {"fuzzy_match", "bleu",    "gleu",
                                                       "rouge_1",     "rouge_2", "rouge_3",
                                                       "rouge_4",     "rouge_5", "rouge_l"};
    return name[s];
}

struct list {
    int32_t *at;
    size_t n;
};

/* ---- characters ---------------------------------------------------------------------------- */

/* Each byte that begins a character begins a number, which those behind it go on with. */
static int characters(struct similarity_text t, struct arena *a, struct list *out, struct err *e)
{
    *out = (struct list){.at = arena_try(a, t.n + 1, sizeof *out->at, e)};
    if (!out->at)
        return -1;
    for (size_t i = 0; i < t.n; i++) {
        uint8_t c = (uint8_t)t.p[i];
        if ((c & 0xc0) != 0x80 || out->n == 0)
            out->at[out->n++] = c;
        else
            out->at[out->n - 1] = (int32_t)((uint32_t)out->at[out->n - 1] << 8 | c);
    }
    return 0;
}

/* ---- words --------------------------------------------------------------------------------- */

struct word {
    const char *p;
    size_t n;
    int32_t *to; /* its number's place */
};

static int by_text(const void *x, const void *y)
{
    const struct word *a = x, *b = y;
    size_t n = a->n < b->n ? a->n : b->n;
    int by = memcmp(a->p, b->p, n);
    return by ? by : (a->n > b->n) - (a->n < b->n);
}

static bool is_of_word(uint8_t c, bool is_rouge)
{
    return is_rouge ? c >= 0x80 || isalnum(c) : !isspace(c);
}

static void split(struct similarity_text t, bool is_rouge, struct word *word, size_t *n_word,
                  struct list *out)
{
    for (size_t i = 0; i < t.n;) {
        size_t begin = i;
        while (i < t.n && is_of_word((uint8_t)t.p[i], is_rouge))
            i++;
        if (i > begin) {
            word[(*n_word)++] =
                (struct word){.p = t.p + begin, .n = i - begin, .to = &out->at[out->n++]};
        } else {
            i++;
        }
    }
}

static int in_lower_case(struct similarity_text *t, struct arena *a, struct err *e)
{
    char *to = arena_try(a, t->n + 1, 1, e);
    for (size_t i = 0; to && i < t->n; i++)
        to[i] = (char)((uint8_t)t->p[i] < 0x80 ? tolower((uint8_t)t->p[i]) : t->p[i]);
    t->p = to;
    return to ? 0 : -1;
}

/* Both texts' words, numbered alike. */
static int words(struct similarity_text t[2], bool is_rouge, struct arena *a, struct list out[2],
                 struct err *e)
{
    size_t n = 0;
    struct word *word = arena_try(a, t[0].n + t[1].n + 1, sizeof *word, e);
    if (!word)
        return -1;
    for (int i = 0; i < 2; i++) {
        out[i] = (struct list){.at = arena_try(a, t[i].n + 1, sizeof *out[i].at, e)};
        if (!out[i].at || (is_rouge && in_lower_case(&t[i], a, e)))
            return -1;
        split(t[i], is_rouge, word, &n, &out[i]);
    }
    qsort(word, n, sizeof *word, by_text);
    int32_t number = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && by_text(&word[i - 1], &word[i]) != 0)
            number++;
        *word[i].to = number;
    }
    return 0;
}

/* ---- what lists have in common ------------------------------------------------------------- */

/* The length of the longest common subsequence. */
static int common_sequence(struct list x, struct list y, struct arena *a, size_t *out,
                           struct err *e)
{
    if ((double)x.n * (double)y.n > CELLS_MAX)
        return err_set(e, ERR_TOO_LARGE, "texts of %zu and %zu are too long to be compared", x.n,
                       y.n);
    size_t *row = arena_try(a, y.n + 1, sizeof *row, e);
    if (!row)
        return -1;
    memset(row, 0, (y.n + 1) * sizeof *row);
    for (size_t i = 0; i < x.n; i++) {
        size_t corner = 0;
        for (size_t k = 1; k <= y.n; k++) {
            size_t above = row[k];
            if (x.at[i] == y.at[k - 1])
                row[k] = corner + 1;
            else if (row[k - 1] > above)
                row[k] = row[k - 1];
            corner = above;
        }
    }
    *out = row[y.n];
    return 0;
}

struct run {
    int32_t at[RUN_MAX];
};

static int by_numbers(const void *x, const void *y)
{
    return memcmp(x, y, sizeof(struct run));
}

static size_t n_run(struct list l, size_t n)
{
    return l.n < n ? 0 : l.n - n + 1;
}

static struct run *runs(struct list l, size_t n, struct arena *a, struct err *e)
{
    struct run *r = arena_try(a, n_run(l, n) + 1, sizeof *r, e);
    for (size_t i = 0; r && i < n_run(l, n); i++) {
        memset(&r[i], 0, sizeof r[i]);
        memcpy(r[i].at, l.at + i, n * sizeof *l.at);
    }
    if (r)
        qsort(r, n_run(l, n), sizeof *r, by_numbers);
    return r;
}

/* Runs of n that both have, each as often as both do. */
static int common_runs(struct list x, struct list y, size_t n, struct arena *a, size_t *out,
                       struct err *e)
{
    struct run *of_x = runs(x, n, a, e), *of_y = of_x ? runs(y, n, a, e) : NULL;
    *out = 0;
    if (!of_y)
        return -1;
    for (size_t i = 0, k = 0; i < n_run(x, n) && k < n_run(y, n);) {
        int by = by_numbers(&of_x[i], &of_y[k]);
        *out += by == 0;
        i += by <= 0;
        k += by >= 0;
    }
    return 0;
}

/* ---- measures ------------------------------------------------------------------------------ */

static double share(size_t n, size_t of)
{
    return of ? (double)n / (double)of : 0;
}

/* The harmonic mean of what is common, as a share of each. */
static double f_measure(size_t common, size_t n_text, size_t n_reference)
{
    double precision = share(common, n_text), recall = share(common, n_reference);
    return common ? 2 * precision * recall / (precision + recall) : 0;
}

static int fuzzy(const struct similarity_text t[2], struct arena *a, double *out, struct err *e)
{
    struct list of[2];
    size_t common;
    if (characters(t[0], a, &of[0], e) || characters(t[1], a, &of[1], e) ||
        common_sequence(of[0], of[1], a, &common, e))
        return -1;
    size_t all = of[0].n + of[1].n;
    *out = all ? share(2 * common, all) : 1;
    return 0;
}

/* Where runs of a length have nothing in common they count half as much as the last such, of one.
 */
static int bleu(const struct list of[2], struct arena *a, double *out, struct err *e)
{
    double sum = 0, smooth = 1;
    size_t order = 0, any = 0;
    for (size_t n = 1; n <= BLEU_ORDER && n_run(of[0], n); n++) {
        size_t common, all = n_run(of[0], n);
        if (common_runs(of[0], of[1], n, a, &common, e))
            return -1;
        any += common;
        smooth *= common ? 1 : 2;
        sum += log(common ? share(common, all) : 1 / (smooth * (double)all));
        order = n;
    }
    double brief = of[0].n >= of[1].n ? 0 : 1 - share(of[1].n, of[0].n);
    *out = any ? exp(brief + sum / (double)order) : 0;
    return 0;
}

static int gleu(const struct list of[2], struct arena *a, double *out, struct err *e)
{
    size_t common = 0, all[2] = {0};
    for (size_t n = 1; n <= BLEU_ORDER; n++) {
        size_t some;
        if (common_runs(of[0], of[1], n, a, &some, e))
            return -1;
        common += some;
        all[0] += n_run(of[0], n);
        all[1] += n_run(of[1], n);
    }
    *out = share(common, all[0] > all[1] ? all[0] : all[1]);
    return 0;
}

static int rouge(const struct list of[2], enum similarity s, struct arena *a, double *out,
                 struct err *e)
{
    size_t common, n = (size_t)(s - SIMILARITY_ROUGE_1) + 1;
    if (s == SIMILARITY_ROUGE_L) {
        if (common_sequence(of[0], of[1], a, &common, e))
            return -1;
        *out = f_measure(common, of[0].n, of[1].n);
        return 0;
    }
    if (common_runs(of[0], of[1], n, a, &common, e))
        return -1;
    *out = f_measure(common, n_run(of[0], n), n_run(of[1], n));
    return 0;
}

int similarity_of(enum similarity s, struct similarity_text text, struct similarity_text reference,
                  struct arena *a, double *out, struct err *e)
{
    struct similarity_text t[2] = {text, reference};
    struct list of[2];
    if (s == SIMILARITY_FUZZY)
        return fuzzy(t, a, out, e);
    if (words(t, s >= SIMILARITY_ROUGE_1, a, of, e))
        return -1;
    return s == SIMILARITY_BLEU   ? bleu(of, a, out, e)
           : s == SIMILARITY_GLEU ? gleu(of, a, out, e)
                                  : rouge(of, s, a, out, e);
}
