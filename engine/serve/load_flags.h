/* SPDX-License-Identifier: Apache-2.0
 *
 * How a model is loaded, in the words of the options (load_flags.def). A zeroed struct stands for
 * the defaults. Texts are borrowed for as long as the struct is used.
 *
 * Thread: constant once read.
 */
#ifndef ENGINE_SERVE_LOAD_FLAGS_H
#define ENGINE_SERVE_LOAD_FLAGS_H

#include "engine/base/opt.h"
#include "kernels/format.h" /* for the values of a row */

struct load_flags {
#define OPTION(field, section, name, type, ...) type##_FIELD field;
#include "engine/serve/load_flags.def"
#undef OPTION
};

#endif
