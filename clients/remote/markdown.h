/* SPDX-License-Identifier: Apache-2.0
 *
 * The styles of an answer on a terminal: headings and **what is strong** in bold, `code` and blocks
 * of it in a colour. The text is as it was, its marks too, so that what is copied from the terminal
 * is what the model said; where there are no colours, nothing changes.
 *
 * It comes in pieces, cut anywhere. A mark whose meaning the next character decides is held back.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_MARKDOWN_H
#define CLIENTS_REMOTE_MARKDOWN_H

#include "clients/remote/term.h"

struct markdown {
    const struct term *term; /* borrowed */
    char mark;               /* of the run that is held back; 0: none is */
    size_t n_mark;
    bool is_begin; /* nothing but space is before it in its line */
    bool is_fenced, is_fence_end, is_code, is_strong, is_heading;
};

void markdown_init(struct markdown *m, const struct term *t);
void markdown_put(struct markdown *m, struct buf *out, const char *text, size_t n);
void markdown_end(struct markdown *m, struct buf *out); /* what was held back, and no style */

#endif
