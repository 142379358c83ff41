/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a chat template: compiles or says why not, in bounded memory and depth.
 */
#include "tests/fuzz/fuzz.h"

#include "engine/template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct template *t = NULL;
    struct err e = ERR_INIT;
    if (template_compile((const char *)data, size, &t, &e) == 0) {
        template_uses(t, "tools");
        template_has_generation(t);
    } else {
        ASSERT(e.code != ERR_NONE && e.msg[0]);
    }
    template_unref(t);
    return 0;
}
