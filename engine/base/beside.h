/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that come with the program, found from where it lies: in the tree that it was built in, or
 * where it was installed. Nothing else is looked at, so nobody's current folder or environment
 * decides what is found. Where this is a part of a shared library, "the program" is that.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_BESIDE_H
#define ENGINE_BASE_BESIDE_H

/* The path of `built` in the program's folder or in one of the few above it, or of `installed` from
 * the program's folder; free() it. NULL: neither is there. */
char *beside_find(const char *built, const char *installed);

#endif
