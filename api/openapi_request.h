/* SPDX-License-Identifier: Apache-2.0
 *
 * The schemas of requests: a struct api_request's from the rows of params.def that its route has,
 * small ones from schema.def.
 *
 * Thread: any.
 */
#ifndef API_OPENAPI_REQUEST_H
#define API_OPENAPI_REQUEST_H

#include "api/jout.h"

void openapi_requests(struct jout *j); /* as members of an object */

#endif
