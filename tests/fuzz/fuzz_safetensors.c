/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a safetensors file. The input is a file whose data part is imagined: the length
 * field, the header, and eight bytes before both that say how many bytes of data follow. What is
 * taken must obey the format's law: in order of place the tensors cover the data without a gap, and
 * each is found by its name.
 */
#include <string.h>

#include "engine/load/st_header.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct st_header *h)
{
    uint64_t at = 0;
    for (size_t i = 0; i < h->n_tensor; i++) {
        const struct st_tensor *t = h->tensor[i];
        uint64_t bits = (uint64_t)st_dtype_bits(t->dtype);
        char text[160];
        ASSERT(t->begin == at && t->end >= at && t->rank <= ST_MAX_RANK);
        for (int k = 0; k < t->rank; k++)
            ASSERT(t->dim[k] >= 0 && !__builtin_mul_overflow(bits, (uint64_t)t->dim[k], &bits));
        ASSERT(bits == (t->end - t->begin) * 8);
        ASSERT(st_header_get(h, t->name) == t);
        ASSERT(strlen(t->name) <= ST_MAX_NAME_BYTES);
        st_tensor_text(t, text, sizeof text);
        at = t->end;
    }
    ASSERT(at == h->data_bytes);
    for (size_t i = 0; i < h->n_meta; i++)
        ASSERT(st_header_meta(h, h->meta[i].key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct st_header h;
    struct err e = ERR_INIT;
    uint64_t data_bytes;
    if (size < sizeof data_bytes)
        return 0;
    memcpy(&data_bytes, data, sizeof data_bytes);
    if (st_header_init(&h, (const char *)data + 8, size - 8, data_bytes, "f", &e)) {
        ASSERT(e.code != ERR_NONE && e.msg[0]);
        return 0;
    }
    check(&h);
    st_header_release(&h);
    return 0;
}
