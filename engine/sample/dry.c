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

/* Tokens behind the last breaker, or `most` where there are as many at least: breakers may be many,
 * so no more of the text is looked at than it repeats. */
static int64_t reach(const struct sample_params *p, const int32_t *text, int64_t n, int64_t most)
{
    int64_t longest = longest_breaker(p);
    for (int64_t at = n - 1, len; at >= 0; at--) {
        len = breaker_at(p, text, n, at);
        if (len)
            return n - at - len < most ? n - at - len : most;
        if (n - at - longest >= most)
            break;
    }
    return most;
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

void dry_edit(const struct sample_params *p, const int32_t *text, int64_t n, int32_t *length,
              int32_t *longest, float *row)
{
    int64_t last = p->dry_last < 0 || p->dry_last > n ? n : p->dry_last;
    text += n - last;
    n = last;
    int64_t most = lengths(text, n, length);
    if (most >= p->dry_allowed)
        most = reach(p, text, n, most);
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
