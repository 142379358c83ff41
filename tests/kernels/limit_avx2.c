/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops that measure the machine, AVX2.
 */
#include <immintrin.h>

#include "tests/kernels/limit.h"

enum { LINE = 64, BLOCK = 256, N_SUM = 12 };

static inline __m256i line_read(const char *p, __m256i acc)
{
    __m256i lo = _mm256_load_si256((const __m256i *)(const void *)p);
    __m256i hi = _mm256_load_si256((const __m256i *)(const void *)(p + 32));
    return _mm256_xor_si256(acc, _mm256_xor_si256(lo, hi));
}

__attribute__((always_inline)) static inline uint64_t streams_read(const char *p, size_t n,
                                                                   int streams, size_t ahead)
{
    __m256i acc = _mm256_setzero_si256();
    size_t each = n / (size_t)streams;
    for (size_t i = 0; i < each; i += BLOCK) {
        for (int s = 0; s < streams; s++) {
            const char *q = p + (size_t)s * each + i;
            for (int j = 0; j < BLOCK; j += LINE) {
                if (ahead)
                    _mm_prefetch(q + ahead + j, _MM_HINT_T0);
                acc = line_read(q + j, acc);
            }
        }
    }
    uint64_t out[4];
    _mm256_storeu_si256((__m256i *)(void *)out, acc);
    return out[0] + out[1] + out[2] + out[3];
}

uint64_t limit_read_avx2(const void *p, size_t n, int streams, size_t ahead)
{
    switch (streams) {
    case 1:
        return streams_read(p, n, 1, ahead);
    case 2:
        return streams_read(p, n, 2, ahead);
    case 4:
        return streams_read(p, n, 4, ahead);
    default:
        return streams_read(p, n, 8, ahead);
    }
}

#define TWELVE(OP)                                                                                 \
    OP("0")                                                                                        \
    OP("1") OP("2") OP("3") OP("4") OP("5") OP("6") OP("7") OP("8") OP("9") OP("10") OP("11")
#define CLEAR(i) "vxorps %%ymm" i ", %%ymm" i ", %%ymm" i "\n\t"
#define FMA(i)   "vfmadd231ps %%ymm12, %%ymm13, %%ymm" i "\n\t"

double limit_f32_avx2(int64_t rounds)
{
    double ops = (double)rounds * N_SUM * 8 * 2;
    __asm__ volatile(TWELVE(CLEAR) CLEAR("12") CLEAR("13") ".balign 64\n"
                                                           "1:\n\t" TWELVE(FMA) "dec %0\n\t"
                                                                                "jnz 1b"
                     : "+r"(rounds)
                     :
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13");
    return ops;
}
