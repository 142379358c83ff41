/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to six rows' products with two vectors with AVX2, as text for asm: twelve sums, the two
 * vectors, a factor and a mask are all 16 registers, and left to itself the compiler moves sums or
 * loads a factor twice. Who includes it defines ROW_STRIDE, the bytes from a row's factor to the
 * next row's as text, and SUMS(r), row r's two sums as operands s<r>0 and s<r>1; and has b, rows,
 * high (upper halves), x, b0 and b1 as variables.
 */
#ifndef KERNELS_X86_TILE_6X2_AVX2_H
#define KERNELS_X86_TILE_6X2_AVX2_H

/* Row r's factor, `in` bytes on, in any lane, times both vectors. */
#define TIMES(r, in)                                                                               \
    "vbroadcastss " ROW_STRIDE "*" #r "+" in "(%[rows]), %[x]\n\tvfmadd231ps %[b0], %[x], %[s" #r  \
    "0]\n\tvfmadd231ps %[b1], %[x], %[s" #r "1]\n\t"
#define TIMES_1(in) TIMES(0, in)
#define TIMES_2(in) TIMES_1(in) TIMES(1, in)
#define TIMES_3(in) TIMES_2(in) TIMES(2, in)
#define TIMES_4(in) TIMES_3(in) TIMES(3, in)
#define TIMES_5(in) TIMES_4(in) TIMES(4, in)
#define TIMES_6(in) TIMES_5(in) TIMES(5, in)

/* Two vectors of numbers; of pairs of bf16 the even and the odd inputs. */
#define BOTH "vmovups (%[b]), %[b0]\n\tvmovups 32(%[b]), %[b1]\n\t"
#define HALF "vcvtph2ps (%[b]), %[b0]\n\tvcvtph2ps 16(%[b]), %[b1]\n\t" /* f16 */
#define EVEN BOTH "vpslld $16, %[b0], %[b0]\n\tvpslld $16, %[b1], %[b1]\n\t"
#define ODD  "vandps (%[b]), %[high], %[b0]\n\tvandps 32(%[b]), %[high], %[b1]\n\t"

#define SUMS_1 SUMS(0)
#define SUMS_2 SUMS_1, SUMS(1)
#define SUMS_3 SUMS_2, SUMS(2)
#define SUMS_4 SUMS_3, SUMS(3)
#define SUMS_5 SUMS_4, SUMS(4)
#define SUMS_6 SUMS_5, SUMS(5)

/* Behind the sums. */
#define REST                                                                                       \
    [x] "=&x"(x), [b0] "=&x"(b0), [b1] "=&x"(b1) : [b] "r"(b), [rows] "r"(rows), [high] "x"(high)

#endif
