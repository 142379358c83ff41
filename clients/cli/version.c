/* SPDX-License-Identifier: Apache-2.0
 *
 * The command that prints what this build is.
 */
#include "engine/base/version.h"

#include <stdio.h>

#include "clients/cli/cmd.h"

const struct cmd_opt cmd_opt_version = {0};

int cmd_version(const struct opt *o)
{
    (void)o;
    printf("tandem %s (%s)\n", version_number(), version_mode());
    printf("built with %s; %s\n", version_compiler(), version_libs());
    if (*version_note())
        printf("note: %s\n", version_note());
    return CMD_GOOD;
}
