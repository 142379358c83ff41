/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as other trainers' files have them, made into ours: a text alone {"text"}, which is a
 * completion of nothing; ShareGPT's {"conversations": [{"from", "value"}]} and Alpaca's
 * {"instruction", "input", "output"}, which are conversations; and a chat's request with its
 * answer, {"messages", "choices"}, whose one choice becomes the last message. Members that are none
 * of these stay.
 *
 * Thread: any.
 */
#ifndef API_TRAIN_DIALECT_H
#define API_TRAIN_DIALECT_H

#include "api/params.h"

/* *row becomes what it says, in the reader's arena; where it is of no such kind it stays. */
int train_dialect(struct api_reader *r, const json_t **row);

#endif
