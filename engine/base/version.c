/* SPDX-License-Identifier: Apache-2.0
 *
 * What this build is, as the Makefile told this file.
 */
#include "engine/base/version.h"

#if defined(__clang__)
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined(__x86_64__)
#define MACHINE "x86-64"
#elif defined(__aarch64__)
#define MACHINE "arm64"
#else
#define MACHINE "an architecture without kernels of its own"
#endif

const char *version_number(void)
{
    return TANDEM_VERSION;
}

const char *version_mode(void)
{
    return TANDEM_MODE;
}

const char *version_compiler(void)
{
    return COMPILER " for " MACHINE;
}

const char *version_libs(void)
{
    return TANDEM_FOUND;
}

const char *version_note(void)
{
    return TANDEM_NOTE;
}
