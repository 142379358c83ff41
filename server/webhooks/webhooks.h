/* SPDX-License-Identifier: Apache-2.0
 *
 * Webhooks: who runs the server is told of each job that ended, by a POST to an address of theirs:
 * OpenAI's events fine_tuning.job.succeeded, .failed and .cancelled, signed as the specification of
 * Standard Webhooks has it (https://www.standardwebhooks.com), so that their SDKs check and read
 * them.
 *
 * What is to be told lies in the store since the job ended (store_notice.h), and goes when it was
 * taken with a status of 2xx. Else it is told again later, under the same id, for three days: so it
 * comes once or more, also over a kill. No job and no stop waits for whom it is told.
 *
 * Thread: new and free one, when nobody else uses the store.
 */
#ifndef SERVER_WEBHOOKS_WEBHOOKS_H
#define SERVER_WEBHOOKS_WEBHOOKS_H

#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct store;
struct webhooks;

struct webhooks_options {
    const char *url;         /* borrowed */
    const char *secret_file; /* a line: whsec_ and base64 of 24 to 64 bytes */
    struct store *store;     /* borrowed */
};

struct webhooks *webhooks_new(const struct webhooks_options *o, struct err *e);
void webhooks_free(struct webhooks *w); /* what was not taken yet is told at the next start */

/* The key that a secret stands for. */
enum { WEBHOOK_KEY_MIN = 24, WEBHOOK_KEY_MAX = 64 };
int webhook_key(const char *secret, struct buf *key, struct err *e);

/* The value of webhook-signature: of the id, the time in seconds since 1970 and the body. */
enum { WEBHOOK_SIGNATURE_BYTES = 48 };
char *webhook_sign(const struct buf *key, const char *id, int64_t time, const char *body,
                   char text[WEBHOOK_SIGNATURE_BYTES]);

#endif
