/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tandem serve` can be told: how its model is loaded, and a row of options.def for all else.
 *
 * Thread: constant once read.
 */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include "engine/serve/load_flags.h"

struct server_options {
    struct load_flags load;
#define OPTION(field, section, name, type, ...) type##_FIELD field;
#include "server/options.def"
#undef OPTION
};

enum {
    N_SERVER_ROWS = 0
#define OPTION(...) +1
#include "engine/serve/load_flags.def"
#include "server/options.def"
#undef OPTION
};
extern const struct opt_row server_rows[N_SERVER_ROWS];

#endif
