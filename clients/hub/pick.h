/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files of a repository a model needs: of one with config.json that, the tokenizer,
 * templates, the folders of pooling, and the safetensors that its index names; of one with GGUF
 * files the one that was asked for, with all its parts. What other programs keep there (.bin, .pt,
 * .onnx) never.
 *
 * Thread: any.
 */
#ifndef CLIENTS_HUB_PICK_H
#define CLIENTS_HUB_PICK_H

#include "clients/hub/names.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

/* The bytes of one of the files. */
typedef int hub_read_fn(void *ctx, const char *name, struct buf *out, struct err *e);

/* Adds to *out what is needed, all of it names of `all`. what: NULL, a file, or a part of a GGUF
 * file's name ("Q4_K_M"). *file: the name of `all` that is the model, where it is one file and no
 * folder; else NULL. */
int hub_pick(const struct hub_names *all, const char *what, hub_read_fn *read, void *ctx,
             struct hub_names *out, const char **file, struct err *e);

#endif
