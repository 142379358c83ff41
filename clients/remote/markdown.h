/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer on a terminal: headings and **what is strong** in bold, `code` and blocks of it in a
 * colour; words wrapped, but for blocks of code (wrap.h). The text is as it was, its marks too, so
 * that what is copied from the terminal is what the model said; elsewhere nothing changes.
 *
 * It comes in pieces, cut anywhere. A mark whose meaning the next character decides is held back.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_REMOTE_MARKDOWN_H
#define CLIENTS_REMOTE_MARKDOWN_H

#include "clients/remote/wrap.h"

struct markdown {
    const struct term *term; /* borrowed */
    struct wrap wrap;
    char mark; /* of the run that is held back; 0: none is */
    size_t n_mark;
    bool is_begin; /* nothing but space is before it in its line */
    bool is_fenced, is_fence_end, is_code, is_strong, is_heading;
};

void markdown_init(struct markdown *m, const struct term *t);
void markdown_put(struct markdown *m, struct buf *out, const char *text, size_t n);
void markdown_end(struct markdown *m, struct buf *out); /* what was held back, and no style */

#endif
