/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of `tandem quantize`: a file of rows as training takes them, where its name ends with
 * .jsonl, a plain text, or the short one that comes with the program.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_LOCAL_QUANTIZE_ROWS_H
#define CLIENTS_LOCAL_QUANTIZE_ROWS_H

#include "engine/quant/texts.h"
#include "engine/serve/resident.h"

/* Rows of at most `length` tokens, of `cap` in all. path: NULL: the built-in text. */
int quantize_rows_read(struct quant_texts *t, const char *path, const struct resident *on,
                       int64_t length, int64_t cap, struct err *e);

#endif
