/* SPDX-License-Identifier: Apache-2.0
 *
 * What this build is. The Makefile knows, and gives it to version.c alone, so that a new version
 * compiles one file.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_VERSION_H
#define ENGINE_BASE_VERSION_H

const char *version_number(void);   /* "0.1.0" */
const char *version_mode(void);     /* "release", "asan", ... */
const char *version_compiler(void); /* with the architecture compiled for */
const char *version_libs(void);     /* "jansson 2.15.1 sqlite3 3.53.4 ..." */
const char *version_note(void);     /* what the user should know of a library; "" for nothing */

#endif
