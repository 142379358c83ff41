/* SPDX-License-Identifier: Apache-2.0
 *
 * Who asks: API keys, their names, scopes and limits. A key file has a line for each:
 *
 *     NAME SCOPES KEY [rpm=N] [tpm=N] [at_once=N] [texts=N] [jobs=N] [jobs_waiting=N]
 *                     [adapters=N] [bytes=N] [model_bytes=N] [weight=N]
 *
 * SCOPES is a list of inference, training, admin with commas, or all. KEY is the key itself, or
 * sha256:HEX of it, so that the file need not hold what opens the door. The rest overrides the
 * limits that hold for every key. A # begins a comment.
 *
 * Keys are kept as digests; a request's key is digested and compared with all of them, whole, in a
 * time that depends on their number alone.
 *
 * Counted: who came in by a key holds on to all of them, so that others can take their place while
 * it is in work.
 *
 * Thread: constant once made, but for the limits, which lock themselves.
 */
#ifndef SERVER_HTTP_AUTH_H
#define SERVER_HTTP_AUTH_H

#include "server/http/call.h"
#include "server/http/limit.h"

enum { AUTH_KEYS_MAX = 1024, AUTH_KEY_LEAST = 8, AUTH_NAME_MAX = 64, AUTH_FILE_BYTES = 1 << 20 };

struct auth;

struct auth_key {
    struct who who;
    struct limit limit;
};

/* With no key added, everybody is "anonymous" and may do everything. */
struct auth *auth_new(struct limit_rule rule); /* of nobody in particular, and of keys */
struct auth *auth_ref(struct auth *a);
void auth_unref(struct auth *a); /* NULL is fine */
/* Keys that were there before go on with what is left in their buckets. */
void auth_carry(struct auth *to, struct auth *from);
size_t auth_count(const struct auth *a);
void auth_rule(struct auth *a, struct limit_rule rule); /* of keys that come and say nothing else */
int auth_add(struct auth *a, const char *name, unsigned scopes, const char *key,
             const struct limit_rule *rule, struct err *e);
int auth_read(struct auth *a, const char *path, struct err *e);
bool auth_is_open(const struct auth *a); /* no keys */

/* By a key's name, of several the first one's; where none has it, what keys have that say nothing
 * else. */
const struct limit_rule *auth_rule_of(const struct auth *a, const char *name);

/* Who that is, without a key to come in by: the salt and the turn are those of the name's first
 * key. Its name is the one given. */
void auth_who_of(const struct auth *a, const char *name, struct who *out);

bool auth_has(const struct auth *a, const char *name); /* somebody may come in under it */

/* header: the value of Authorization, NULL for none. NULL: no key, or a wrong one. The same of a
 * key that stands alone. */
struct auth_key *auth_find(struct auth *a, const char *header);
struct auth_key *auth_find_key(struct auth *a, const char *key);

#endif
