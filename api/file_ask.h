/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients say of a file that is to be: what it is for, and how long it stays.
 *
 * Thread: any; pure functions.
 */
#ifndef API_FILE_ASK_H
#define API_FILE_ASK_H

#include <stdint.h>

struct api_reader;
struct json_t;

#define FILE_ASK_PURPOSES "fine-tune, batch, evals, user_data, assistants, vision"

enum { FILE_ASK_KEEP_MIN_S = 3600, FILE_ASK_KEEP_MAX_S = 30 * 24 * 3600 };

/* The same word, for ever; NULL: it is none of them, or NULL. */
const char *file_ask_purpose(const char *word);

/* {"anchor": "created_at", "seconds": ...} */
int file_ask_keep(struct api_reader *r, const char *name, const struct json_t *v, int64_t *keep_s);

#endif
