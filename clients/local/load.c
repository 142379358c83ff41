/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading for the commands of this folder. On a terminal a bar shows how far it is; elsewhere
 * nothing is printed, since it takes a second or two.
 */
#include "clients/local/load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { BAR = 30, BAR_AFTER_NS = 300000000 };

struct bar {
    int64_t begin_ns;
    bool is_shown;
};

/* Called by any compute thread: one line is one write, so that lines never mix. */
static void show_progress(void *ctx, uint64_t done, uint64_t all)
{
    struct bar *b = ctx;
    char line[128];
    int full = all ? (int)(BAR * done / all) : BAR;
    if (clock_ns() - b->begin_ns < BAR_AFTER_NS)
        return;
    int n = snprintf(line, sizeof line, "\rloading [%.*s%.*s] %.1f of %.1f GB", full,
                     "##############################", BAR - full, "..............................",
                     (double)done / 1e9, (double)all / 1e9);
    if (write(STDERR_FILENO, line, (size_t)n) == n)
        b->is_shown = true;
}

static int type_of(const char *name)
{
    return strcmp(name, "int8") == 0   ? K_INT8
           : strcmp(name, "bf16") == 0 ? K_BF16
           : strcmp(name, "f32") == 0  ? K_F32
                                       : -1;
}

struct model_options local_model_options(const struct local_options *o)
{
    return (struct model_options){
        .type = type_of(o->quantize), .kv_type = type_of(o->kv_type), .ctx = o->ctx};
}

int local_init(struct local *l, const char *path, const struct local_options *o, struct err *e)
{
    struct bar bar = {.begin_ns = clock_ns()};
    struct model_options mo = local_model_options(o);
    memset(l, 0, sizeof *l);
    l->pool = pool_new((int)o->threads, true, e);
    if (!l->pool)
        return -1;
    l->device = device_cpu_new(l->pool, strcmp(o->kernels, "auto") == 0 ? NULL : o->kernels, e);
    l->stream = l->device ? stream_new(l->device, e) : NULL;
    if (!l->stream || model_dir_init(&l->dir, path, e))
        return -1;
    mo.pool = l->pool;
    if (isatty(STDERR_FILENO)) {
        mo.progress = show_progress;
        mo.progress_ctx = &bar;
    }
    l->model = model_load(&l->dir, &mo, l->device, e);
    if (bar.is_shown)
        fputs("\r\033[K", stderr);
    return l->model ? 0 : -1;
}

void local_release(struct local *l)
{
    model_free(l->model);
    model_dir_release(&l->dir);
    stream_free(l->stream);
    device_free(l->device);
    pool_free(l->pool);
}
