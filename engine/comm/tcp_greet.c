/* SPDX-License-Identifier: Apache-2.0
 *
 * Both proofs are one digest under names of their own.
 */
#include "engine/comm/tcp_greet.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/fs.h"
#include "engine/base/version.h"

static const char magic[8] = "tandem\0\4"; /* of this greeting, and of frames */

int greet_secret_read(struct greet_secret *s, const char *file, struct err *e)
{
    struct buf b;
    s->n = 0;
    if (!file)
        return 0;
    buf_init(&b, GREET_SECRET_MAX);
    int rc = fs_read(file, &b, e);
    size_t n = b.len;
    if (!rc)
        while (n && (b.data[n - 1] == '\n' || b.data[n - 1] == '\r'))
            n--;
    if (!rc && n < GREET_SECRET_MIN)
        rc = err_set(e, ERR_BAD_INPUT, "%s: a secret of ranks has at least %d bytes, this one %zu",
                     file, GREET_SECRET_MIN, n);
    if (!rc) {
        memcpy(s->bytes, b.data, n);
        s->n = n;
    }
    buf_release(&b);
    return rc;
}

static void draw(uint8_t out[GREET_DRAW])
{
    if (getrandom(out, GREET_DRAW, 0) != GREET_DRAW)
        BUG("getrandom");
}

void greet_hello_init(struct greet_hello *h, int rank, int size, uint16_t port)
{
    *h = (struct greet_hello){.rank = rank, .size = size, .port = port};
    memcpy(h->magic, magic, sizeof magic);
    snprintf(h->version, sizeof h->version, "%s", version_number());
    draw(h->draw);
}

bool greet_is_hello(const struct greet_hello *h, size_t got)
{
    return memcmp(h->magic, magic, got < sizeof magic ? got : sizeof magic) == 0;
}

static void prove(const struct greet_welcome *w, const struct greet_secret *s,
                  const struct greet_hello *h, const char *whose, uint8_t proof[SHA256_BYTES])
{
    struct hmac m;
    hmac_init(&m, s->bytes, s->n);
    hmac_add(&m, whose, strlen(whose) + 1);
    hmac_add(&m, h, sizeof *h);
    hmac_add(&m, &w->rank, sizeof w->rank);
    hmac_add(&m, w->draw, sizeof w->draw);
    hmac_end(&m, proof);
}

void greet_welcome_init(struct greet_welcome *w, const struct greet_secret *s, int rank,
                        const struct greet_hello *h)
{
    *w = (struct greet_welcome){.rank = rank, .wants_proof = s->n > 0};
    memcpy(w->magic, magic, sizeof magic);
    draw(w->draw);
    if (s->n)
        prove(w, s, h, "who listens", w->proof);
}

int greet_welcome_check(const struct greet_welcome *w, const struct greet_secret *s, int rank,
                        const struct greet_hello *h, uint8_t proof[SHA256_BYTES], struct err *e)
{
    if (memcmp(w->magic, magic, sizeof magic) != 0 || w->rank != rank)
        return err_set(e, ERR_BAD_INPUT, "who listens there is not rank %d of this version", rank);
    if (w->wants_proof && !s->n)
        return err_set(e, ERR_BAD_INPUT, "rank %d asks for a secret: MASTER_SECRET_FILE", rank);
    if (!w->wants_proof && s->n)
        return err_set(e, ERR_BAD_INPUT,
                       "rank %d has no secret: MASTER_SECRET_FILE is for all ranks or for none",
                       rank);
    if (!s->n)
        return 0;
    prove(w, s, h, "who listens", proof);
    if (!hmac_equal(proof, w->proof))
        return err_set(e, ERR_BAD_INPUT,
                       "who listens there as rank %d does not know the secret of "
                       "MASTER_SECRET_FILE",
                       rank);
    prove(w, s, h, "who connects", proof);
    return 0;
}

bool greet_is_proof(const struct greet_welcome *w, const struct greet_secret *s,
                    const struct greet_hello *h, const uint8_t proof[SHA256_BYTES])
{
    uint8_t own[SHA256_BYTES];
    prove(w, s, h, "who connects", own);
    return hmac_equal(own, proof);
}
