/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimal string alignment distance, three rows of its table at a time.
 */
#include "engine/base/near.h"

#include <limits.h>
#include <string.h>

static int min(int a, int b)
{
    return a < b ? a : b;
}

int near_distance(const char *a, const char *b)
{
    size_t n_a = strlen(a), n_b = strlen(b);
    if (n_a > NEAR_LEN_MAX || n_b > NEAR_LEN_MAX)
        return INT_MAX;
    int table[3][NEAR_LEN_MAX + 1];
    int *before = table[0], *last = table[1], *row = table[2];
    for (size_t j = 0; j <= n_b; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= n_a; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= n_b; j++) {
            row[j] = min(min(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min(row[j], before[j - 2] + 1);
        }
        int *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[n_b];
}

void near_try(struct near *n, const char *candidate)
{
    int distance = near_distance(n->word, candidate);
    int bound = 1 + (int)strlen(n->word) / 4;
    if (distance <= bound && (!n->best || distance < n->distance)) {
        n->best = candidate;
        n->distance = distance;
    }
}
