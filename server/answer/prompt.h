/* SPDX-License-Identifier: Apache-2.0
 *
 * From a checked request to token ids: the chat template is rendered, texts are tokenized, and the
 * sum of prompt and answer is held against the context.
 *
 * What is trusted: in a chat, special tokens are those of the template alone; whatever a message
 * holds is text. The prompt of /v1/completions is the whole input of the model, written by the
 * client as a template would be, and may hold special tokens. Texts to embed may not.
 *
 * Thread: any; everything lies in the arena.
 */
#ifndef SERVER_ANSWER_PROMPT_H
#define SERVER_ANSWER_PROMPT_H

#include "api/request.h"
#include "engine/engine.h"
#include "engine/template/template.h"
#include "engine/token/tokenizer.h"
#include "engine/tools/think_reader.h"

struct prompt {
    const int32_t *id; /* [n] */
    int64_t n;
    int64_t n_first;  /* of a pair, the tokens of the first's type; 0: of one */
    const char *text; /* as it was sent; NULL: ids, or cut */
    size_t n_text;
    const struct tok_span *span; /* [n] of text, where an echo wants them; NULL */
    enum think_place thinks;     /* how it leaves a model that has thoughts */
    bool
        text_goes_on; /* an answer's text goes on from this one's: it is no chat's, and not empty */
};

/* What the request may contain, as the engine's model has it. */
struct api_limits prompt_limits(const struct engine *g);

/* The conversation as text; the caller's to release. Names of chat_template_kwargs that the
 * template does not read join q->ignored. */
int prompt_render(struct engine *g, struct api_request *q, struct arena *a,
                  struct template_out *out, struct api_error *e);

/* All prompts of a request: one of a chat, q->n_input otherwise. */
int prompts_make(struct engine *g, struct api_request *q, struct arena *a,
                 const struct prompt **out, size_t *n, struct api_error *e);

/* Of a request for scores: each of q->document behind its text of q->input, in one prompt as the
 * model's files put them together. */
int pairs_make(struct engine *g, const struct api_request *q, struct arena *a,
               const struct prompt **out, size_t *n, struct api_error *e);

/* That it comes to more than the context holds. */
int prompt_too_long(const struct engine *g, const struct api_request *q, int64_t n, bool is_more,
                    struct api_error *e);

#endif
