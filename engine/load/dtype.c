/* SPDX-License-Identifier: Apache-2.0
 *
 * See dtype.h.
 */
#include "engine/load/dtype.h"

#include <string.h>

#include "engine/base/err.h"

static const struct {
    const char *name;
    int bits;
} row[ST_DTYPE_COUNT] = {
#define ST_DTYPE(name, bits) {#name, bits},
#include "engine/load/dtype.def"
#undef ST_DTYPE
};

const char *st_dtype_name(enum st_dtype t)
{
    return row[t].name;
}

int st_dtype_bits(enum st_dtype t)
{
    return row[t].bits;
}

bool st_dtype_parse(const char *name, enum st_dtype *out)
{
    for (int t = 0; t < ST_DTYPE_COUNT; t++)
        if (strcmp(row[t].name, name) == 0)
            return *out = (enum st_dtype)t, true;
    return false;
}

bool st_dtype_k_type(enum st_dtype t, enum k_type *out)
{
    switch (t) {
    case ST_F32:
        return *out = K_F32, true;
    case ST_F16:
        return *out = K_F16, true;
    case ST_BF16:
        return *out = K_BF16, true;
    default:
        return false;
    }
}

enum st_dtype st_dtype_of(enum k_type t)
{
    switch (t) {
    case K_F32:
        return ST_F32;
    case K_F16:
        return ST_F16;
    case K_BF16:
        return ST_BF16;
    default:
        BUG("no file type for kernel type %d", (int)t);
    }
}
