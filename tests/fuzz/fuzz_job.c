/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a fine-tuning job's creation or, behind a byte that is no {, of a batch's. Whatever
 * it is, it is refused with a message, or what was read is there and within its bounds.
 */
#include "api/batch.h"
#include "api/job.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

enum { ARENA_BYTES = 64 << 20 };

static void check_ignored(const char *ignored)
{
    ASSERT(!ignored || strlen(ignored) < 512);
    for (const char *p = ignored; p && *p; p++)
        ASSERT(*p >= ' ' && *p < 0x7f);
}

static void try_job(const char *text, size_t n, struct arena *a)
{
    struct job_ask ask;
    struct api_error e = {0};
    if (job_ask_parse(text, n, a, &ask, &e)) {
        ASSERT(e.status >= 400 && *e.message);
        return;
    }
    ASSERT(ask.job.training_file && *ask.job.training_file);
    ASSERT(isfinite(ask.job.hyper.learning_rate) && isfinite(ask.job.hyper.lr_multiplier));
    check_ignored(ask.ignored);
}

static void try_batch(const char *text, size_t n, struct arena *a)
{
    struct batch b;
    struct api_error e = {0};
    const char *ignored;
    if (batch_ask_parse(text, n, a, &b, &ignored, &e)) {
        ASSERT(e.status >= 400 && *e.message);
        return;
    }
    ASSERT(b.endpoint && b.input_file && b.keep_s >= 0);
    check_ignored(ignored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    arena_init(&a, ARENA_BYTES);
    if (size && data[0] == '{')
        try_job((const char *)data, size, &a);
    else if (size)
        try_batch((const char *)data + 1, size - 1, &a);
    arena_release(&a);
    return 0;
}
