/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/responses.
 */
#include "server/answer/generate.h"
#include "server/http/route.h"

void route_responses(struct call *c)
{
    generate(c, API_RESPONSES);
}
