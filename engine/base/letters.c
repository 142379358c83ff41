/* SPDX-License-Identifier: Apache-2.0
 *
 * Letters from the random numbers of the system.
 */
#include "engine/base/letters.h"

#include <stdint.h>
#include <sys/random.h>

#include "engine/base/err.h"

/* So few bytes are given at once, and whole, as soon as the system has started. */
void letters_draw(char *to, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint8_t draw[LETTERS_MAX];
    ASSERT(n <= sizeof draw);
    if (getrandom(draw, n, 0) != (ssize_t)n)
        BUG("getrandom");
    for (size_t i = 0; i < n; i++)
        to[i] = letters[draw[i] % (sizeof letters - 1)];
    to[n] = 0;
}
