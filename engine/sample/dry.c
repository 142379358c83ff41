/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the text's end stands before each of its places, by the Z algorithm over the text read
 * backwards: a step for each token, whatever the text is.
 */
#include "engine/sample/dry.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* At the begin of the work space: of how many tokens all breakers are known, and the place of the
 * last, from 1; 0: there is none. */
enum { DRY_LOOKED_AT, DRY_BREAKER };

static bool breaks(const struct sample_params *p, int32_t id)
{
    return p->dry_breaks && p->dry_breaks[id / 32] >> id % 32 & 1;
}

/* The longest breaker that begins at text[at]: the number of its tokens; 0: none does. */
static int64_t breaker_at(const struct sample_params *p, const int32_t *text, int64_t n, int64_t at)
{
    int64_t longest = breaks(p, text[at]);
    for (int32_t i = 0; i < p->n_dry_breaker; i += 1 + p->dry_breaker[i]) {
        int64_t len = p->dry_breaker[i];
        if (len > longest && len <= n - at &&
            !memcmp(p->dry_breaker + i + 1, text + at, (size_t)len * sizeof *text))
            longest = len;
    }
    return longest;
}

static int64_t longest_breaker(const struct sample_params *p)
{
    int64_t longest = 1;
    for (int32_t i = 0; i < p->n_dry_breaker; i += 1 + p->dry_breaker[i])
        longest = p->dry_breaker[i] > longest ? p->dry_breaker[i] : longest;
    return longest;
}

/* Tokens behind the last breaker that begins at `first` or behind it, or `most` where there are as
 * many at least. Breakers may be many where a text repeats without end: so a place is looked at
 * once, but for those near the end, where a breaker may have become whole since. */
static int64_t reach(const struct sample_params *p, const int32_t *text, int64_t n, int64_t first,
                     int64_t most, int32_t *known)
{
    int64_t from = known[DRY_LOOKED_AT] - longest_breaker(p) + 1, last = known[DRY_BREAKER] - 1;
    int64_t at = n - 1;
    while (at >= from && at >= 0 && !breaker_at(p, text, n, at))
        at--;
    last = at >= from && at > last ? at : last;
    known[DRY_LOOKED_AT] = (int32_t)n;
    known[DRY_BREAKER] = (int32_t)last + 1;
    if (last < first)
        return most;
    int64_t behind = n - last - breaker_at(p, text, n, last);
    return behind < most ? behind : most;
}

/* length[k]: how many tokens before text[n - k] are those at the text's end, for k from 1. The
 * longest of them. */
static int64_t lengths(const int32_t *text, int64_t n, int32_t *length)
{
    int64_t longest = 0;
    const int32_t *end = text + n - 1; /* end[-i]: the i'th token from the end */
    int64_t lo = 0, hi = 0;            /* the stretch that reaches furthest: [lo, hi) */
    for (int64_t k = 1; k < n; k++) {
        int64_t len = k < hi ? length[k - lo] : 0;
        len = k < hi && len > hi - k ? hi - k : len;
        while (k + len < n && end[-len] == end[-k - len])
            len++;
        length[k] = (int32_t)len;
        longest = len > longest ? len : longest;
        if (k + len > hi) {
            lo = k;
            hi = k + len;
        }
    }
    return longest;
}

static double penalty(const struct sample_params *p, int64_t length)
{
    double most = floor(log((double)FLT_MAX) / log(p->dry_base)), over;
    over = (double)(length - p->dry_allowed);
    /* as llama.cpp: what would leave f32 */
    return p->dry_multiplier * pow(p->dry_base, p->dry_base > 1.000001 ? fmin(over, most) : over);
}

void dry_edit(const struct sample_params *p, const int32_t *text, int64_t n, int32_t *space,
              int32_t *longest, float *row)
{
    int64_t last = p->dry_last < 0 || p->dry_last > n ? n : p->dry_last, first = n - last;
    int32_t *length = space + DRY_KNOWN - 1; /* from 1 */
    if (n < 1)
        return;
    int64_t most = lengths(text + first, last, length);
    if (most >= p->dry_allowed)
        most = reach(p, text, n, first, most, space);
    text += first;
    n = last;
    if (most < p->dry_allowed)
        return;
    for (int64_t k = 1; k < n; k++)
        longest[text[n - k]] = -1;
    for (int64_t k = 1; k < n; k++) {
        int32_t len = length[k] < most ? length[k] : (int32_t)most, *to = &longest[text[n - k]];
        *to = len > *to ? len : *to;
    }
    for (int64_t k = 1; k < n; k++) {
        int32_t id = text[n - k];
        if (longest[id] >= p->dry_allowed && !breaks(p, id))
            row[id] = (float)fmax((double)row[id] - penalty(p, longest[id]), -(double)FLT_MAX);
        longest[id] = -1;
    }
}
