/* SPDX-License-Identifier: Apache-2.0
 *
 * The request, and its bar.
 */
#include "clients/remote/upload.h"

#include "clients/remote/bar.h"
#include "engine/base/num.h"

struct watch {
    struct bar bar;
};

static void show(void *ctx, int64_t sent, int64_t bytes)
{
    struct watch *w = ctx;
    char a[NUM_TEXT_BYTES], b[NUM_TEXT_BYTES], text[2 * NUM_TEXT_BYTES + 8];
    const char *part[] = {text};
    int64_t unit = bytes < 10 << 20 ? 1 << 10 : 1 << 20;
    snprintf(text, sizeof text, "%s of %s", num_size_text(sent / unit * unit, a),
             num_size_text(bytes / unit * unit, b));
    bar_show(&w->bar, (double)sent / (double)bytes, part, 1);
}

int upload_file(struct peer *p, const char *path, const char *purpose, json_t **file, struct err *e)
{
    struct watch w;
    bar_init(&w.bar, stderr);
    const struct peer_file f = {.path = path,
                                .purpose = purpose,
                                .progress = w.bar.term.has_cursor ? show : NULL,
                                .ctx = &w};
    int rc = peer_upload(p, &f, file, e);
    bar_clear(&w.bar);
    return rc;
}
