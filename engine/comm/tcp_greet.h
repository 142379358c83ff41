/* SPDX-License-Identifier: Apache-2.0
 *
 * What two ranks say to each other when one has connected, before anything else:
 *
 *     who connects    hello: who it is, where it listens, a number drawn for this time
 *     who listens     welcome: who it is, a number of its own, and its proof, if there is a secret
 *     who connects    its proof, if there is a secret
 *
 * A proof is a digest over both numbers and all of the hello, under the secret
 * (engine/base/hmac.h), and each side's is another: who has heard one can answer nothing with it.
 * It says that who connected is of us, not that nobody changes what is sent later: that is neither
 * signed nor encrypted. Machines of a group have one byte order.
 *
 * Thread: any.
 */
#ifndef ENGINE_COMM_TCP_GREET_H
#define ENGINE_COMM_TCP_GREET_H

#include "engine/base/err.h"
#include "engine/base/hmac.h"

enum { GREET_SECRET_MIN = 16, GREET_SECRET_MAX = 1024, GREET_DRAW = 32, GREET_VERSION = 16 };

struct greet_secret {
    char bytes[GREET_SECRET_MAX];
    size_t n; /* 0: there is none */
};

struct greet_hello {
    char magic[8], version[GREET_VERSION]; /* of the program: all read the same structs */
    int32_t rank, size;
    uint16_t port, pad; /* where it listens, in network order */
    uint8_t draw[GREET_DRAW];
};

struct greet_welcome {
    char magic[8];
    int32_t rank;
    uint32_t wants_proof;
    uint8_t draw[GREET_DRAW], proof[SHA256_BYTES];
};

/* The file's bytes but for a line's end behind them. file NULL: none. */
int greet_secret_read(struct greet_secret *s, const char *file, struct err *e);

void greet_hello_init(struct greet_hello *h, int rank, int size, uint16_t port);
bool greet_is_hello(const struct greet_hello *h, size_t got); /* as far as it has come */

/* The answer of who listens. */
void greet_welcome_init(struct greet_welcome *w, const struct greet_secret *s, int rank,
                        const struct greet_hello *h);

/* The answer to that: proof is to be sent if the welcome wants one. */
int greet_welcome_check(const struct greet_welcome *w, const struct greet_secret *s, int rank,
                        const struct greet_hello *h, uint8_t proof[SHA256_BYTES], struct err *e);

bool greet_is_proof(const struct greet_welcome *w, const struct greet_secret *s,
                    const struct greet_hello *h, const uint8_t proof[SHA256_BYTES]);

#endif
