/* SPDX-License-Identifier: Apache-2.0
 *
 * A preview: how a job would take one row. Asked for with the row itself or with a file and the
 * number of an example; answered with its tokens, the text of each, and which of them are trained.
 *
 * Thread: any.
 */
#ifndef API_PREVIEW_H
#define API_PREVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/error.h"
#include "api/jout.h"
#include "engine/base/arena.h"

struct preview_ask {
    const char *row; /* as a line of a file; NULL: that of the file */
    size_t n_row;
    const char *training_file;
    int64_t example; /* from 1 */
    const char *ignored;
};
int preview_ask_parse(const char *body, size_t n, struct arena *a, struct preview_ask *out,
                      struct api_error *e);

struct preview {
    const char *model;
    bool is_chat, is_text;           /* is_text: the first of those that become vectors */
    int64_t max_tok, n_cut, n_learn; /* tokens a row may have; that were cut off; to be learned */
    const int32_t *id;               /* [n] */
    const uint8_t *is_learned;       /* [n] */
    float weight;                    /* of those that are */
    int64_t n;
    /* The text of token i, [text_end[i - 1], text_end[i]) of text: whole characters, so that a part
     * of one has none and the last part has it. */
    const char *text;
    const size_t *text_end; /* [n] */
    const char *unread;     /* members of the row that nothing reads; "": none */
};
void preview_write(struct jout *j, const struct preview *p);

#endif
