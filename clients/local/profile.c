/* SPDX-License-Identifier: Apache-2.0
 *
 * A table per kernel from a stream's trace.
 */
#include "clients/local/profile.h"

#include <inttypes.h>
#include <string.h>

void profile_count(void *ctx, enum kernel_id k, struct k_shape shape, int64_t ns)
{
    struct profile_row *r = &((struct profile *)ctx)->row[k];
    r->n_call++;
    r->ns += ns;
    r->bytes += shape.bytes;
    r->flops += shape.flops;
}

void profile_watch(struct profile *p, struct stream *s)
{
    profile_clear(p);
    stream_trace(s, profile_count, p);
}

void profile_clear(struct profile *p)
{
    memset(p, 0, sizeof *p);
}

void profile_show(const struct profile *p, const char *title, FILE *to)
{
    int64_t all = 0;
    for (int k = 0; k < KERNEL_COUNT; k++)
        all += p->row[k].ns;
    fprintf(to, "%-14s %8s %10s %7s %8s %9s\n", title, "calls", "ms", "share", "GB/s", "GFLOP/s");
    for (int k = 0; k < KERNEL_COUNT; k++) {
        const struct profile_row *r = &p->row[k];
        if (r->n_call > 0 && r->ns > 0)
            fprintf(to, "%-14s %8" PRId64 " %10.3f %6.1f%% %8.1f %9.1f\n",
                    kernel_name((enum kernel_id)k), r->n_call, (double)r->ns / 1e6,
                    100.0 * (double)r->ns / (double)all, r->bytes / (double)r->ns,
                    r->flops / (double)r->ns);
    }
}
