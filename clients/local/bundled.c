/* SPDX-License-Identifier: Apache-2.0
 *
 * It lies in the tree (examples/tiny), and where `make install` puts it.
 */
#include "clients/local/bundled.h"

#include <stddef.h>

#include "engine/base/beside.h"

char *bundled_model(struct err *e)
{
    char *path = beside_find("examples/tiny/model", "../share/tandem/tiny");
    if (!path)
        err_set(e, ERR_BAD_INPUT,
                "which model? None is named, and the one that comes with the program is not beside "
                "it. A model is a directory with config.json and safetensors files");
    return path;
}
