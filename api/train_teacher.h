/* SPDX-License-Identifier: Apache-2.0
 *
 * What a teacher's server told of an answer's tokens, OpenAI's `logprobs` of a chat: {"content":
 * [{"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]}]}, on a message
 * of the assistant or beside the messages, where it is of the last one.
 *
 * Thread: any.
 */
#ifndef API_TRAIN_TEACHER_H
#define API_TRAIN_TEACHER_H

#include "api/params.h"
#include "engine/train/example.h"

bool train_is_assistant(const json_t *message); /* it is one of the assistant */

/* Takes them off the messages, which templates are given. */
int train_teacher(struct api_reader *r, const json_t *row, json_t *messages,
                  struct train_example *out);

#endif
