/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes that lie beside files and models, which anybody may have altered: what is taken is written
 * as a note that says the same. The first byte of the input says of which of the two it is.
 */
#include <string.h>

#include "api/sidecar.h"
#include "tests/fuzz/fuzz.h"

enum { ARENA_BYTES = 4 << 20 };

static void try_file(const char *text, size_t n, struct arena *a)
{
    struct file_row f, again;
    struct err e = ERR_INIT;
    struct buf b;
    if (sidecar_read_file(text, n, a, &f, &e)) {
        ASSERT(e.code == ERR_CORRUPT && e.msg[0]);
        return;
    }
    buf_init(&b, ARENA_BYTES);
    sidecar_write_file(&b, &f);
    ASSERT(!b.failed && sidecar_read_file(b.data, b.len, a, &again, &e) == 0);
    ASSERT(!strcmp(f.id, again.id) && !strcmp(f.owner, again.owner) && !strcmp(f.name, again.name));
    ASSERT(f.bytes == again.bytes && f.created == again.created && f.expires == again.expires);
    buf_release(&b);
}

static void try_tuned(const char *text, size_t n, struct arena *a)
{
    struct job_tuned t, again;
    struct err e = ERR_INIT;
    struct buf b;
    bool is_shared, too;
    if (sidecar_read_tuned(text, n, a, &t, &is_shared, &e)) {
        ASSERT(e.code == ERR_CORRUPT && e.msg[0]);
        return;
    }
    buf_init(&b, ARENA_BYTES);
    sidecar_write_tuned(&b, &t, is_shared);
    ASSERT(!b.failed && sidecar_read_tuned(b.data, b.len, a, &again, &too, &e) == 0);
    ASSERT(!strcmp(t.id, again.id) && !strcmp(t.name, again.name) && !strcmp(t.dir, again.dir));
    ASSERT(is_shared == too && t.step == again.step && t.is_full == again.is_full);
    buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    if (!size || size > SIDECAR_BYTES_MAX)
        return 0;
    arena_init(&a, ARENA_BYTES);
    if (data[0] == 'f')
        try_file((const char *)data + 1, size - 1, &a);
    else
        try_tuned((const char *)data + 1, size - 1, &a);
    arena_release(&a);
    return 0;
}
