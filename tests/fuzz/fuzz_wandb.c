/* SPDX-License-Identifier: Apache-2.0
 *
 * What a collector answers: names that make a path, and a count that lines are counted on from.
 */
#include <string.h>

#include "api/wandb.h"
#include "tests/fuzz/fuzz.h"

enum { PATH_BYTES = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wandb_place p;
    struct err e = ERR_INIT;
    struct buf path;
    if (wandb_read_run((const char *)data, size, &p, &e)) {
        ASSERT(e.code != ERR_NONE && e.msg[0]);
        return 0;
    }
    ASSERT(*p.project && *p.entity && p.n_line >= 0 && p.n_line < INT64_MAX / 2);
    buf_init(&path, PATH_BYTES);
    wandb_write_path(&p, "ftjob-1", &path);
    int n_slash = 0;
    for (const char *at = path.data; (at = strchr(at, '/')); at++)
        n_slash++;
    ASSERT(!path.failed && n_slash == 5 && !strpbrk(path.data, "?# \r\n"));
    buf_release(&path);
    return 0;
}
