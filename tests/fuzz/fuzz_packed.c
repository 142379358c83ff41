/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices of codes and scales: the first byte of the input says how a config would say that they
 * are packed, the second of how many inputs a group is, and the rest is a safetensors file, of
 * which each tensor that becomes a weight is read to its last number, and as codes.
 */
#include <stdlib.h>
#include <unistd.h>

#include "engine/load/packed_weight.h"
#include "kernels/coded.h"
#include "tests/engine/load/st_make.h"
#include "tests/fuzz/fuzz.h"

enum { NUMBERS_MAX = 1 << 20 };

static void read_packed(const struct weights *w, const struct weight *codes)
{
    static float x[NUMBERS_MAX];
    struct err e = ERR_INIT;
    const struct st_tensor *t = packed_weight_counted(w, codes->t);
    const struct weight *all = t ? weights_get(w, t->name) : NULL;
    if (!all || !all->packed || st_tensor_count(t) > NUMBERS_MAX)
        return;
    int64_t rows = weight_rows(all), len = weight_row_len(all);
    if (weight_read(all, 0, rows, x, &e))
        ASSERT(e.code != ERR_NONE && e.msg[0]);
    e = (struct err)ERR_INIT;
    if (weight_coded(all) != K_F32 && weight_read_coded(all, 0, 0, rows * len, x, &e))
        ASSERT(e.code != ERR_NONE && e.msg[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    char dir[] = "/tmp/fuzz_packed_XXXXXX", path[64];
    if (size < 2 || !mkdtemp(dir))
        return 0;
    struct packing how = {.method = data[0] == 'a'   ? PACKING_AWQ
                                    : data[0] == 'b' ? PACKING_FP8
                                    : data[0] == 'n' ? PACKING_BNB
                                                     : PACKING_GPTQ,
                          .is_zero_less = data[0] == '1',
                          .is_ordered = data[0] == 'o',
                          .block = {data[1], data[1]},
                          .group = data[1] == 255 ? -1 : data[1]};
    put_file(dir, "model.safetensors", data + 2, size - 2);
    struct weights *w = weights_open_packed(dir, &how, &e);
    if (!w)
        ASSERT(e.code != ERR_NONE && e.msg[0]);
    for (size_t i = 0; w && i < weights_count(w); i++)
        if (packed_weight_is(weights_at(w, i)->t))
            read_packed(w, weights_at(w, i));
    weights_close(w);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    unlink(path);
    rmdir(dir);
    return 0;
}
