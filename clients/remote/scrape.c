/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the lines. A sample is NAME[{LABELS}] VALUE; a label's value may hold any character,
 * its quotes and backslashes escaped, so the value of the sample stands behind the last space.
 */
#include "clients/remote/scrape.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Behind the name, when the line is a sample of it. */
static const char *behind_name(const char *line, const char *name)
{
    size_t n = strlen(name);
    bool is = strncmp(line, name, n) == 0 && (line[n] == '{' || line[n] == ' ');
    return is ? line + n : NULL;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static bool holds(const char *at, const char *end, const char *piece)
{
    return !piece || memmem(at, (size_t)(end - at), piece, strlen(piece)) != NULL;
}

double scrape_sum(const char *text, const char *name, const char *with)
{
    double sum = 0;
    for (const char *line = text; *line; line = next_line(line)) {
        const char *at = behind_name(line, name), *end = line + strcspn(line, "\n");
        if (!at || !holds(at, end, with))
            continue;
        const char *space = memrchr(at, ' ', (size_t)(end - at));
        double v = space ? strtod(space, NULL) : 0;
        sum += isfinite(v) ? v : 0;
    }
    return sum;
}

void scrape_label(const char *text, const char *name, const char *label, char *room, size_t n)
{
    char piece[64];
    snprintf(piece, sizeof piece, "%s=\"", label);
    room[0] = 0;
    for (const char *line = text; *line; line = next_line(line)) {
        const char *at = behind_name(line, name), *end = line + strcspn(line, "\n");
        const char *value = at ? memmem(at, (size_t)(end - at), piece, strlen(piece)) : NULL;
        if (!value)
            continue;
        value += strlen(piece);
        snprintf(room, n, "%.*s", (int)strcspn(value, "\"\n"), value);
        return;
    }
}
