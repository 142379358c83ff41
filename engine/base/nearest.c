/* SPDX-License-Identifier: Apache-2.0
 *
 * The distance is counted row by row of the usual table, of which three rows are kept. Words past
 * MAX_WORD letters name nothing of ours and are never near: the table has a fixed size.
 */
#include "engine/base/nearest.h"

#include <string.h>

enum { MAX_WORD = 48 };

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* a has n letters, b has m; both at most MAX_WORD. */
static int distance(const char *a, size_t n, const char *b, size_t m)
{
    int rows[3][MAX_WORD + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int same = a[i - 1] == b[j - 1];
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + !same);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = min3(now[j], now[j], before[j - 2] + 1);
        }
        int *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[m];
}

void nearest_init(struct nearest *n, const char *word)
{
    *n = (struct nearest){.word = word};
}

/* Near enough: one slip in a word of up to four letters, two up to eight, three in a longer one;
 * or the beginning of the name, from two letters on. */
void nearest_add(struct nearest *n, const char *name)
{
    size_t len = strlen(n->word), name_len = strlen(name);
    if (len == 0 || len > MAX_WORD || name_len > MAX_WORD)
        return;
    int limit = len <= 4 ? 1 : len <= 8 ? 2 : 3;
    int far = distance(n->word, len, name, name_len);
    if (len >= 2 && len < name_len && strncmp(n->word, name, len) == 0)
        far = far < limit ? far : limit;
    if (far <= limit && (!n->name || far < n->far)) {
        n->name = name;
        n->far = far;
    }
}
