/* SPDX-License-Identifier: Apache-2.0
 *
 * How numbers become int4, by every variant alike, so that a packed weight has the same bits
 * whatever packed it. Of a group the number furthest from zero, the first of those, is divided by
 * each reach in turn, rounded to f16, and is the group's scale if it makes a smaller sum of squared
 * errors than those before: one chain of fused multiply-adds over ascending inputs. A code is the
 * number times the scale's reciprocal, held to -8..7, rounded to nearest even, and 8 more. All
 * codes are 8 where the scale is zero, or where a number of the group is not finite: the scale is a
 * NaN then, and the damage shows.
 *
 * Against the first reach alone the others take 4% off the error of normal numbers; further ones,
 * and those of the other sign, less than 0.1%.
 *
 * Thread: any; constant.
 */
#ifndef KERNELS_INT4_H
#define KERNELS_INT4_H

enum { INT4_REACHES = 5, INT4_ZERO = 8 };

#define INT4_REACH                                                                                 \
    {                                                                                              \
        -8.0f, -7.0f, -7.5f, -8.5f, -9.0f                                                          \
    }

#endif
