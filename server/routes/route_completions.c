/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/completions.
 */
#include "server/answer/generate.h"
#include "server/http/route.h"

void route_completions(struct call *c)
{
    generate(c, API_COMPLETIONS);
}

void route_infill(struct call *c)
{
    generate(c, API_INFILL);
}

/* Where llama.cpp's clients ask. */
void route_plain_completions(struct call *c)
{
    route_completions(c);
}
