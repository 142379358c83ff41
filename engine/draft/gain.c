/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to 16 rows a point each, then two for each doubling. A point has the mean of the rows that it
 * was made of, so that two numbers of rows that share it are not taken to cost the same.
 */
#include "engine/draft/gain.h"

#include <stdbool.h>

enum { EACH = 16, ROOM = 7 /* rows that cost about as much as reading the weights does */ };

static const double LEARNS = 0.25, JUMP = 1.5, LEAST = 1.03;

static int point_of(int64_t rows)
{
    int at = EACH - 1;
    int64_t lo = EACH;
    if (rows <= EACH)
        return (int)rows - 1;
    for (; rows > 2 * lo && at + 2 < GAIN_POINTS - 2; lo *= 2)
        at += 2;
    return at + (rows > lo + lo / 2 ? 2 : 1);
}

static bool is_known(const struct gain *g, int i)
{
    return g->point[i].us > 0 && g->n_step - g->point[i].seen_at < GAIN_STALE;
}

/* One step that took far longer than those before is the system's doing. */
void gain_saw(struct gain *g, int64_t n, int64_t n_draft, int64_t us)
{
    if (n < 1 || us <= 0)
        return;
    int i = point_of(n + n_draft);
    double rows = (double)(n + n_draft), took = (double)us;
    g->n_step++;
    if (!n_draft)
        g->plain_at = g->n_step;
    if (is_known(g, i)) {
        took = took < JUMP * g->point[i].us ? took : JUMP * g->point[i].us;
        took = g->point[i].us + LEARNS * (took - g->point[i].us);
        rows = g->point[i].rows + LEARNS * (rows - g->point[i].rows);
    }
    g->point[i].us = took;
    g->point[i].rows = rows;
    g->point[i].seen_at = g->n_step;
}

static int next_known(const struct gain *g, int i)
{
    do
        i++;
    while (i < GAIN_POINTS && !is_known(g, i));
    return i;
}

/* What a step of so many rows would take; 0: nothing is known of any as small. *lo is the known
 * point below the last rows asked for, -1 at first: who asks for more and more finds the next
 * there. */
static double us_of(const struct gain *g, double rows, int *lo)
{
    int hi = next_known(g, *lo);
    for (; hi < GAIN_POINTS && g->point[hi].rows <= rows; hi = next_known(g, hi))
        *lo = hi;
    if (*lo < 0)
        return 0;
    double at = g->point[*lo].rows, us = g->point[*lo].us;
    if (hi == GAIN_POINTS)
        return us * (1 + (rows - at) / (at + ROOM));
    return us + (g->point[hi].us - us) * (rows - at) / (g->point[hi].rows - at);
}

int64_t gain_rows(const struct gain *g, int64_t n, const float *chance, int64_t n_row)
{
    int lo = -1;
    double plain = us_of(g, (double)n, &lo), tokens = (double)n, best = LEAST * tokens;
    int64_t n_best = 0;
    if (plain <= 0 || !is_known(g, point_of(n)) || g->n_step - g->plain_at >= GAIN_PLAIN)
        return 0;
    for (int64_t i = 0; i < n_row; i++) {
        tokens += (double)chance[i];
        double pace = tokens * plain / us_of(g, (double)(n + i + 1), &lo);
        if (pace > best) {
            best = pace;
            n_best = i + 1;
        }
    }
    return n_best;
}
