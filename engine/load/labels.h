/* SPDX-License-Identifier: Apache-2.0
 *
 * What a classifier's numbers are called: id2label of config.json; LABEL_0, LABEL_1 and so on where
 * it has none, of which there are num_labels, or two.
 *
 * Thread: constant once read.
 */
#ifndef ENGINE_LOAD_LABELS_H
#define ENGINE_LOAD_LABELS_H

#include <stdint.h>

#include "engine/base/err.h"

struct json;

struct labels {
    char **name; /* owned: [n] */
    int32_t n;
};

/* root: config.json. After a failure labels_release, too. */
int labels_init(struct labels *l, const struct json *root, struct err *e);
void labels_release(struct labels *l);

#endif
