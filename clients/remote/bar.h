/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of a terminal that is drawn anew: a bar, and behind it parts of text, of which a narrow
 * terminal shows as many of the first as fit. Where there is no terminal nothing is drawn.
 *
 * Other text goes over the same terminal between bar_clear and the next bar_show.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_BAR_H
#define CLIENTS_REMOTE_BAR_H

#include "clients/remote/term.h"

struct bar {
    struct term term;
    bool is_drawn;
};

void bar_init(struct bar *b, FILE *out);

/* `full`: 0 to 1; below 0: not known, no bar is drawn. */
void bar_show(struct bar *b, double full, const char *const *part, int n_part);
void bar_clear(struct bar *b); /* the line is as if nothing had been drawn */

#endif
