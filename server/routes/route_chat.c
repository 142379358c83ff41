/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/chat/completions.
 */
#include "server/answer/generate.h"
#include "server/http/route.h"

void route_chat(struct call *c)
{
    generate(c, API_CHAT);
}

/* Where llama.cpp's clients ask. */
void route_plain_chat(struct call *c)
{
    route_chat(c);
}
