/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of `tandem serve`.
 */
#include "server/options.h"

#include "engine/base/gate_meter.h"
#include "engine/engine.h"

enum { DAY_S = 86400 };

const struct opt_row server_rows[N_SERVER_ROWS] = {
#define OPTION(field, section, name, type, fallback, min, max, hint, help)                         \
    OPT_ROW(section, name, type, fallback, min, max, hint, help,                                   \
            offsetof(struct server_options, load.field)),
#include "engine/serve/load_flags.def"
#undef OPTION
#define OPTION(field, section, name, type, fallback, min, max, hint, help)                         \
    OPT_ROW(section, name, type, fallback, min, max, hint, help,                                   \
            offsetof(struct server_options, field)),
#include "server/options.def"
#undef OPTION
};
