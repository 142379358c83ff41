/* SPDX-License-Identifier: Apache-2.0
 *
 * The compression function on the SHA instructions. They want the state as (A B E F) and (C D G H),
 * and do two rounds at a time; the message schedule runs four words ahead.
 */
#include "engine/base/sha256_block.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <string.h>

typedef int v4 __attribute__((vector_size(16)));      /* what the instructions take */
typedef uint32_t u4 __attribute__((vector_size(16))); /* what may wrap */
typedef char v16 __attribute__((vector_size(16)));

/* Words of `a` then of `b`, numbered 0 to 7. */
#define PICK(a, b, ...) __builtin_shufflevector((a), (b), __VA_ARGS__)

#define SHA_CODE __attribute__((target("sha,ssse3")))

static u4 load(const void *p)
{
    u4 x;
    memcpy(&x, p, sizeof x);
    return x;
}

SHA_CODE static u4 load_be(const uint8_t *p)
{
    v16 x = (v16)load(p);
    return (u4)PICK(x, x, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
}

SHA_CODE static u4 two_rounds(u4 a, u4 b, u4 words)
{
    return (u4)__builtin_ia32_sha256rnds2((v4)a, (v4)b, (v4)words);
}

/* The next four words of the schedule from the sixteen before. */
SHA_CODE static u4 next(u4 w0, u4 w1, u4 w2, u4 w3)
{
    u4 sum = (u4)__builtin_ia32_sha256msg1((v4)w0, (v4)w1) + PICK(w2, w3, 1, 2, 3, 4);
    return (u4)__builtin_ia32_sha256msg2((v4)sum, (v4)w3);
}

SHA_CODE static void block_sha(uint32_t state[8], const uint8_t *p, size_t n_block)
{
    u4 lo = load(state), hi = load(state + 4); /* A B C D, E F G H */
    u4 abef = PICK(hi, lo, 1, 0, 5, 4), cdgh = PICK(hi, lo, 3, 2, 7, 6);
    for (; n_block--; p += 64) {
        u4 w[4], abef_before = abef, cdgh_before = cdgh;
        for (int i = 0; i < 4; i++)
            w[i] = load_be(p + 16 * i);
        for (int i = 0; i < 16; i++) {
            u4 sum = w[i % 4] + load(sha256_round + 4 * i);
            cdgh = two_rounds(cdgh, abef, sum);
            abef = two_rounds(abef, cdgh, PICK(sum, sum, 2, 3, 2, 3));
            if (i < 12)
                w[i % 4] = next(w[i % 4], w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]);
        }
        abef += abef_before;
        cdgh += cdgh_before;
    }
    lo = PICK(abef, cdgh, 3, 2, 7, 6);
    hi = PICK(abef, cdgh, 1, 0, 5, 4);
    memcpy(state, &lo, sizeof lo);
    memcpy(state + 4, &hi, sizeof hi);
}

sha256_block_fn *sha256_block_x86(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3))
        return NULL;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_SHA))
        return NULL;
    return block_sha;
}
#else
sha256_block_fn *sha256_block_x86(void)
{
    return NULL;
}
#endif
