#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A plain `make` on a machine without the libraries ends at once, with what is missing and the command
# that installs it, and not in the compiler's words about some file.
set -u
# what make itself may have set here is not what somebody types
unset MAKEFLAGS MFLAGS MAKELEVEL MAKECMDGOALS
said=$(PKG_CONFIG_LIBDIR=/nonexistent PKG_CONFIG_PATH= make -n 2>&1)
status=$?
case "$status $said" in
2*"not here: "*libcjson*"make deps"*) ;;
*)
    echo "exit $status: $said"
    echo "0 passed, 1 failed"
    exit 1
    ;;
esac
[ "$(echo "$said" | wc -l)" -eq 1 ] || { echo "more than a line: $said"; echo "0 passed, 1 failed"; exit 1; }
echo "1 passed, 0 failed"
