/* SPDX-License-Identifier: Apache-2.0
 *
 * Files by form, uploads in parts and batches say these alike.
 */
#include "api/file_ask.h"

#include <stdio.h>
#include <string.h>

#include "api/params.h"
#include "api/value.h"

const char *file_ask_purpose(const char *word)
{
    static const char *const known[] = {"fine-tune", "batch",      "evals",
                                        "user_data", "assistants", "vision"};
    for (size_t i = 0; word && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], word) == 0)
            return known[i];
    return NULL;
}

int file_ask_keep(struct api_reader *r, const char *name, const json_t *v, int64_t *keep_s)
{
    char of[64];
    const json_t *seconds = json_object_get(v, "seconds");
    if (!json_is_object(v) || !seconds ||
        !value_is_word(json_object_get(v, "anchor"), "created_at"))
        return param_bad(r, name, "is an object with the anchor \"created_at\" and seconds");
    snprintf(of, sizeof of, "%.48s.seconds", name);
    return param_int(r, of, seconds, FILE_ASK_KEEP_MIN_S, FILE_ASK_KEEP_MAX_S, keep_s);
}
