/* SPDX-License-Identifier: Apache-2.0
 *
 * What belongs to a model directory beside its weights: configs, the index of shards, the
 * tokenizer, the chat template, what is told of modules in folders of their own. Files of other
 * kinds are left where they are.
 *
 * Thread: any.
 */
#ifndef ENGINE_LOAD_SMALL_FILES_H
#define ENGINE_LOAD_SMALL_FILES_H

#include "engine/base/err.h"

int small_files_copy(const char *from, const char *to, struct err *e);

#endif
