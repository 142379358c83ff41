/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/chat/completions. What is kept of them is shown by route_chats.c.
 */
#include "server/answer/generate.h"
#include "server/http/route.h"
#include "server/routes/kept.h"

void route_chat(struct call *c)
{
    generate_kept(c, API_CHAT, kept_keeper(c, RESPONSE_CHAT, NULL));
}

/* Where llama.cpp's clients ask. */
void route_plain_chat(struct call *c)
{
    route_chat(c);
}
