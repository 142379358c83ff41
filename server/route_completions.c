/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/completions.
 */
#include "server/generate.h"
#include "server/route.h"

void route_completions(struct call *c)
{
    generate(c, API_COMPLETIONS);
}
