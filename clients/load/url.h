/* SPDX-License-Identifier: Apache-2.0
 *
 * The server that load is put on, as its address was typed: http://HOST[:PORT][/BASE]. BASE is what
 * stands before the paths of the API; a closing /v1, as OpenAI's clients have it, may be there or
 * not. https is refused with a reason: a cipher in the generator would be measured too.
 *
 * Thread: any; constant once made.
 */
#ifndef CLIENTS_LOAD_URL_H
#define CLIENTS_LOAD_URL_H

#include <sys/socket.h>

#include "engine/base/err.h"

struct load_url {
    char host[256], port[8];
    char base[256]; /* "" or "/proxy"; no slash behind it, no /v1 */
    struct sockaddr_storage addr;
    socklen_t n_addr;
};

int load_url_parse(struct load_url *u, const char *text, struct err *e);
int load_url_resolve(struct load_url *u, struct err *e); /* fills addr */

#endif
