/* SPDX-License-Identifier: Apache-2.0
 *
 * The signature of Standard Webhooks, version 1: HMAC-SHA-256 of "ID.TIME.BODY".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/base64.h"
#include "engine/base/hmac.h"
#include "server/webhooks/webhooks.h"

int webhook_key(const char *secret, struct buf *key, struct err *e)
{
    static const char prefix[] = "whsec_";
    size_t n = strlen(secret), n_prefix = strlen(prefix);
    bool is_one = n > n_prefix && !strncmp(secret, prefix, n_prefix) &&
                  !base64_read(key, secret + n_prefix, n - n_prefix) && !key->failed;
    if (!is_one || key->len < WEBHOOK_KEY_MIN || key->len > WEBHOOK_KEY_MAX)
        return err_set(e, ERR_BAD_INPUT,
                       "whsec_ and base64 of %d to %d bytes are expected, in one line",
                       WEBHOOK_KEY_MIN, WEBHOOK_KEY_MAX);
    return 0;
}

char *webhook_sign(const struct buf *key, const char *id, int64_t time, const char *body,
                   char text[WEBHOOK_SIGNATURE_BYTES])
{
    struct hmac h;
    uint8_t digest[SHA256_BYTES];
    char stamp[24];
    struct buf b;
    snprintf(stamp, sizeof stamp, ".%" PRId64 ".", time);
    hmac_init(&h, key->data, key->len);
    hmac_add(&h, id, strlen(id));
    hmac_add(&h, stamp, strlen(stamp));
    hmac_add(&h, body, strlen(body));
    hmac_end(&h, digest);
    buf_init(&b, WEBHOOK_SIGNATURE_BYTES);
    base64_write(&b, digest, sizeof digest);
    snprintf(text, WEBHOOK_SIGNATURE_BYTES, "v1,%s", b.data ? b.data : "");
    buf_release(&b);
    return text;
}
