/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats that a test goes through: all that numbers can be packed to, by their rows in
 * kernels/format.def. Those made of files' codes alone have tests of their own.
 */
#ifndef TESTS_LIB_FORMATS_H
#define TESTS_LIB_FORMATS_H

#include "kernels/format.h"

static const enum k_type formats_packed[] = {
#define PACKED_FORMAT_WHOLE(ID)  K_##ID,
#define PACKED_FORMAT_HALVES(ID) K_##ID,
#define PACKED_FORMAT_FROZEN(ID) K_##ID,
#define PACKED_FORMAT_CODED(ID)
#define FORMAT(name, ID, rows, ROWS, trained, ...) PACKED_##trained(ID)
#include "kernels/format.def"
#undef FORMAT
};

enum { FORMATS_PACKED = sizeof formats_packed / sizeof *formats_packed };

#endif
