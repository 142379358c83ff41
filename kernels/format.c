/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of format.def as a table.
 */
#include "kernels/format.h"

#include <string.h>

const struct k_format k_formats[K_TYPE_COUNT] = {
#define FORMAT(name_, ID, rows_, ROWS, trained_, dtype_, most_, ...)                               \
    [K_##ID] = {.name = #name_,                                                                    \
                .dtype = dtype_,                                                                   \
                .rows = K_##ROWS,                                                                  \
                .trained = trained_,                                                               \
                .most = most_,                                                                     \
                .stream = {__VA_ARGS__},                                                           \
                .linear = K_linear_##name_,                                                        \
                .dx = K_linear_dx_##name_,                                                         \
                .dw = K_linear_dw_##rows_},
#include "kernels/format.def"
#undef FORMAT
};

const char k_format_choices[] = "none"
#define CHOICE_FORMAT_WHOLE(name)                  "|" #name
#define CHOICE_FORMAT_HALVES(name)                 "|" #name
#define CHOICE_FORMAT_FROZEN(name)                 "|" #name
#define CHOICE_FORMAT_CODED(name)                  ""
#define FORMAT(name, ID, rows, ROWS, trained, ...) CHOICE_##trained(name)
#include "kernels/format.def"
#undef FORMAT
    ;

int k_format_named(const char *name)
{
    for (int t = 0; t < K_TYPE_COUNT; t++)
        if (strcmp(k_formats[t].name, name) == 0)
            return t;
    return -1;
}

int k_format_stored(const char *dtype)
{
    for (int t = 0; t < K_TYPE_COUNT && *dtype; t++)
        if (strcmp(k_formats[t].dtype, dtype) == 0)
            return t;
    return -1;
}
