/* SPDX-License-Identifier: Apache-2.0
 *
 * Which hub is asked and where its files are kept, as Hugging Face's own tools say it: HF_ENDPOINT,
 * HF_HUB_CACHE, HF_HOME, HF_TOKEN (or the file that `hf auth login` writes), HF_HUB_OFFLINE.
 *
 * Thread: any, once made.
 */
#ifndef CLIENTS_HUB_PLACE_H
#define CLIENTS_HUB_PLACE_H

#include <stdbool.h>

#include "engine/base/err.h"

struct hub_place {
    char *endpoint; /* owned: "https://huggingface.co", without a slash at its end */
    char *token;    /* owned; NULL: none */
    char *cache;    /* owned: the folder that has models--ORG--NAME */
    bool is_offline;
};

/* After a failure, too, it may be released. */
int hub_place_init(struct hub_place *p, struct err *e);
void hub_place_release(struct hub_place *p);

#endif
