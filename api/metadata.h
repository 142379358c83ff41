/* SPDX-License-Identifier: Apache-2.0
 *
 * The pairs that clients give things to find them again by.
 *
 * Thread: any.
 */
#ifndef API_METADATA_H
#define API_METADATA_H

#include "api/params.h"

/* At most 16 pairs of texts; *out: as JSON, in the reader's arena. */
int metadata_read(struct api_reader *r, const char *name, const json_t *v, const char **out);

/* Whether such JSON has the pair; NULL: it has none. */
bool metadata_has(const char *metadata, const char *key, const char *value);

#endif
