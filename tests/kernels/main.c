/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem-kernels: checks and times every kernel on this CPU.
 *
 *     tandem-kernels check [NAME...] [--variant V] [--seed N] [--short]
 *     tandem-kernels bench [NAME...] [--json] [--threads N] [--rows N] [--variant V]
 *
 * Exit 0: all is well; 1: a check failed; 2: wrong usage.
 */
#include <stdio.h>
#include <string.h>

#include "tests/kernels/tool.h"

static int usage(void)
{
    fputs("usage: tandem-kernels check [NAME...] [--variant V] [--seed N] [--short]\n"
          "       tandem-kernels bench [NAME...] [--json] [--threads N] [--rows N] [--variant V]\n"
          "V: ref|avx2|avx512|avx512_bf16|cuda\n"
          "NAME is a row of kernels/kernels.def or the beginning of one\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "check") == 0)
        return tool_check(argc - 2, argv + 2);
    if (argc >= 2 && strcmp(argv[1], "bench") == 0)
        return tool_bench(argc - 2, argv + 2);
    return usage();
}
