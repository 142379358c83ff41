/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share.
 *
 * Thread: as graders.h says.
 */
#ifndef SERVER_GRADERS_GRADERS_OWN_H
#define SERVER_GRADERS_GRADERS_OWN_H

#include "engine/base/arena.h"
#include "engine/base/url.h"
#include "server/graders/grader_python.h"
#include "server/graders/graders.h"

/* An address that may be asked, and all below it. */
struct grader_allowed {
    struct url url;
    const char *key;   /* in the arena: sent along; NULL: none */
    size_t n_key_path; /* of the address that the key is for: a longer one is nearer */
};

struct graders {
    struct graders_options opt;
    struct grader_allowed *allowed; /* in the arena: [n_allowed] */
    size_t n_allowed;
    struct arena arena;
    bool has_curl;
};

/* The longest that the address is below; NULL: it may not be asked. */
const struct grader_allowed *graders_find(const struct graders *g, const char *url);

/* Whether nobody waits for the answer any more. */
bool grader_is_ended(const struct grader_question *q);

/* Each waits for an answer until then; -1: there is none. */
int grader_ask_here(struct graders *g, const struct grader_question *q, int64_t until_us,
                    struct buf *out, struct err *e);
int grader_post(struct graders *g, const struct grader_question *q, int64_t until_us,
                struct buf *out, struct err *e);

/* Before another try; false: the time is over, or nobody waits any more. */
bool grader_rest(const struct grader_question *q, int64_t ms, int64_t until_us);

#endif
