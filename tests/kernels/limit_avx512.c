/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops that measure the machine, AVX-512: reading with 64-byte loads from several places at
 * once, and as many independent sums as it takes to hide the latency of a product.
 */
#include <immintrin.h>

#include "tests/kernels/limit.h"

enum { LINE = 64, BLOCK = 256, N_SUM = 16 };

__attribute__((always_inline)) static inline uint64_t streams_read(const char *p, size_t n,
                                                                   int streams, size_t ahead)
{
    __m512i a0 = _mm512_setzero_si512(), a1 = a0, a2 = a0, a3 = a0;
    size_t each = n / (size_t)streams;
    for (size_t i = 0; i < each; i += BLOCK) {
#pragma GCC unroll 8
        for (int s = 0; s < streams; s++) {
            const char *q = p + (size_t)s * each + i;
            if (ahead) {
                _mm_prefetch(q + ahead, _MM_HINT_T0);
                _mm_prefetch(q + ahead + LINE, _MM_HINT_T0);
                _mm_prefetch(q + ahead + 2 * LINE, _MM_HINT_T0);
                _mm_prefetch(q + ahead + 3 * LINE, _MM_HINT_T0);
            }
            a0 = _mm512_xor_si512(a0, _mm512_load_si512(q));
            a1 = _mm512_xor_si512(a1, _mm512_load_si512(q + LINE));
            a2 = _mm512_xor_si512(a2, _mm512_load_si512(q + 2 * LINE));
            a3 = _mm512_xor_si512(a3, _mm512_load_si512(q + 3 * LINE));
        }
    }
    a0 = _mm512_xor_si512(_mm512_xor_si512(a0, a1), _mm512_xor_si512(a2, a3));
    return (uint64_t)_mm512_reduce_add_epi64(a0);
}

uint64_t limit_read_avx512(const void *p, size_t n, int streams, size_t ahead)
{
    switch (streams) { /* a constant each, so that the loops unroll */
    case 1:
        return ahead ? streams_read(p, n, 1, ahead) : streams_read(p, n, 1, 0);
    case 2:
        return streams_read(p, n, 2, ahead);
    case 4:
        return streams_read(p, n, 4, ahead);
    default:
        return streams_read(p, n, 8, ahead);
    }
}

/* The products are written as instructions: a compiler that keeps one sum in memory would make the
 * machine look slower than it is. Sums are zmm0 to zmm15, the factors (zeros) zmm16 and zmm17. */
#define FOUR(OP, a, b, c, d) OP(a) OP(b) OP(c) OP(d)
#define SIXTEEN(OP)                                                                                \
    FOUR(OP, "0", "1", "2", "3")                                                                   \
    FOUR(OP, "4", "5", "6", "7")                                                                   \
    FOUR(OP, "8", "9", "10", "11")                                                                 \
    FOUR(OP, "12", "13", "14", "15")
#define CLEAR(i) "vpxord %%zmm" i ", %%zmm" i ", %%zmm" i "\n\t"
#define FMA(i)   "vfmadd231ps %%zmm16, %%zmm17, %%zmm" i "\n\t"
#define BF16(i)  "vdpbf16ps %%zmm16, %%zmm17, %%zmm" i "\n\t"
#define INT8(i)  "vpdpbusd %%zmm16, %%zmm17, %%zmm" i "\n\t"
#define LOOP(OP)                                                                                   \
    __asm__ volatile(SIXTEEN(CLEAR) CLEAR("16") CLEAR("17") ".balign 64\n"                         \
                                                            "1:\n\t" SIXTEEN(OP) "dec %0\n\t"      \
                                                                                 "jnz 1b"          \
                     : "+r"(rounds)                                                                \
                     :                                                                             \
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",       \
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",       \
                       "xmm16", "xmm17")

double limit_f32_avx512(int64_t rounds)
{
    double ops = (double)rounds * N_SUM * 16 * 2;
    LOOP(FMA);
    return ops;
}

double limit_bf16_avx512(int64_t rounds)
{
    double ops = (double)rounds * N_SUM * 32 * 2;
    LOOP(BF16);
    return ops;
}

double limit_int8_avx512(int64_t rounds)
{
    double ops = (double)rounds * N_SUM * 64 * 2;
    LOOP(INT8);
    return ops;
}
