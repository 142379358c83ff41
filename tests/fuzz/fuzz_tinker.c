/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a request of Tinker's API, of the kind that the first byte says: it is refused with
 * a status, or what was read is within its bounds.
 */
#include <math.h>
#include <string.h>

#include "api/tinker.h"
#include "tests/fuzz/fuzz.h"

enum { ARENA_BYTES = 64 << 20 };

static void look_pass(const struct tinker_pass *p)
{
    ASSERT(p->n_row >= 1 && p->n_row <= TINKER_ROWS_MAX);
    for (int64_t i = 0; i < p->n_row; i++) {
        const struct tinker_row *r = &p->row[i];
        ASSERT(r->n > 0);
        for (int64_t k = 0; k < r->n; k++)
            ASSERT(r->label[k] >= 0 && (!r->counts || isfinite(r->counts[k])) &&
                   (!r->sampled || isfinite(r->sampled[k])));
    }
}

static void look_sample(const struct tinker_sample *s)
{
    ASSERT(s->n >= 1 && s->n_sample >= 1 && s->n_sample <= TINKER_SAMPLES_MAX);
    for (int64_t i = 0; i < s->n; i++)
        ASSERT(s->id[i] >= 0);
    ASSERT(s->params.n_stop <= GEN_STOP_MAX && s->params.n_stop_id <= GEN_STOP_ID_MAX);
}

static int read_any(enum tinker_kind kind, const char *body, size_t n, struct arena *a,
                    struct api_error *e)
{
    struct tinker_create c;
    struct tinker_pass p;
    struct tinker_step t;
    struct tinker_save v;
    struct tinker_load l;
    struct tinker_sample s;
    int rc = 0;
    switch (kind) {
    case TINKER_CREATE:
        return tinker_create_read(body, n, a, &c, e);
    case TINKER_PASS:
        rc = tinker_pass_read(body, n, a, &p, e);
        if (!rc)
            look_pass(&p);
        return rc;
    case TINKER_STEP:
        return tinker_step_read(body, n, a, &t, e);
    case TINKER_SAVE:
    case TINKER_SAVE_SAMPLER:
        return tinker_save_read(body, n, a, &v, e);
    case TINKER_LOAD:
        return tinker_load_read(body, n, a, &l, e);
    case TINKER_SAMPLE:
        rc = tinker_sample_read(body, n, a, &s, e);
        if (!rc)
            look_sample(&s);
        return rc;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct tinker_address at;
    struct api_error e = {0};
    if (size == 0)
        return 0;
    enum tinker_kind kind = (enum tinker_kind)(data[0] % (TINKER_SAMPLE + 1));
    const char *body = (const char *)data + 1;
    arena_init(&a, ARENA_BYTES);
    if (read_any(kind, body, size - 1, &a, &e))
        ASSERT(e.status >= 400 && *e.message);
    if (!tinker_address_read(kind, body, size - 1, &a, &at, &e))
        ASSERT(at.line && at.seq >= 0);
    arena_release(&a);
    return 0;
}
