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
