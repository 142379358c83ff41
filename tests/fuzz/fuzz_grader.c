/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what is asked of graders: it is refused with a field, or its reward is finite.
 */
#include <math.h>
#include <string.h>

#include "api/grade.h"
#include "tests/fuzz/fuzz.h"

enum { ARENA_BYTES = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct grade_ask ask;
    struct grade grade;
    struct api_error e = {0};
    arena_init(&a, ARENA_BYTES);
    if (grade_ask_parse((const char *)data, size, true, &a, &ask, &e)) {
        ASSERT(e.status >= 400 && *e.message);
    } else {
        grader_run(ask.grader, ask.item, ask.sample, ask.n_sample, NULL, &a, &grade);
        ASSERT(isfinite(grade.reward) && (!grade.fault || grade.reward == 0));
    }
    arena_release(&a);
    return 0;
}
