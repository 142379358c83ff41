/* SPDX-License-Identifier: Apache-2.0
 *
 * See dtype.h.
 */
#include "engine/load/dtype.h"

#include <string.h>

#include "engine/base/err.h"
#include "kernels/format.h"

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
    int type = k_format_stored(row[t].name);
    if (type >= 0)
        *out = (enum k_type)type;
    return type >= 0;
}

enum st_dtype st_dtype_of(enum k_type t)
{
    enum st_dtype out;
    if (!st_dtype_parse(k_format(t)->dtype, &out))
        BUG("no file type for kernel type %d", (int)t);
    return out;
}
