/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the head is the embedding, where the config says so: files may have a head of its own
 * beside it, of a training that untied them. Then the files have the word, as for transformers 5.
 *
 * Thread: any; the weights are read.
 */
#ifndef ENGINE_LOAD_TIED_HEAD_H
#define ENGINE_LOAD_TIED_HEAD_H

#include <stdbool.h>

#include "engine/base/err.h"

struct weights;

/* *is_apart: both are there, and are not alike in what rows are looked at: some hundred of all. */
int tied_head_is_apart(const struct weights *w, bool *is_apart, struct err *e);

#endif
