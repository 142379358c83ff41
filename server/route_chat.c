/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/chat/completions.
 */
#include "server/generate.h"
#include "server/route.h"

void route_chat(struct call *c)
{
    generate(c, API_CHAT);
}
