/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest of a first try is a name too, for the retry that may follow, but nothing is looked for
 * under it: two creations alike are two things.
 */
#include "server/desk/retry.h"

#include <string.h>

enum { RETRY_S = 600, KEY_S = 24 * 60 * 60, KEY_BYTES_MAX = 255 };

int retry_read(struct call *c, struct errand *t)
{
    struct api_error e;
    const char *count = call_header(c, "x-stainless-retry-count");
    const char *key = call_header(c, "Idempotency-Key");
    t->is_retry = count && strcmp(count, "0") != 0;
    if (key && (!*key || strlen(key) > KEY_BYTES_MAX)) {
        api_fail(&e, 400, "invalid_value", "Idempotency-Key", "It has from 1 to %d bytes.",
                 KEY_BYTES_MAX);
        errand_refuse(t, &e);
        return -1;
    }
    t->retry_key = key ? arena_strdup(&t->arena, key) : NULL;
    return 0;
}

void retry_of(struct errand *t, struct retry *out)
{
    uint8_t digest[SHA256_BYTES];
    sha256_of(t->ask->body, t->ask->n_body, digest);
    sha256_text(digest, out->body);
    out->within_s = t->retry_key ? KEY_S : t->is_retry ? RETRY_S : -1;
    out->name = t->retry_key ? arena_printf(&t->arena, "key:%s", t->retry_key)
                             : arena_printf(&t->arena, "body:%s", out->body);
}

enum errand_end retry_conflict(struct api_error *e)
{
    api_fail(e, 400, "idempotency_key_reused", "Idempotency-Key",
             "This Idempotency-Key came with another body before.");
    return ERRAND_FAILED;
}
