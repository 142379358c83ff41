/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files for tests, true and false ones, from header text as it shall stand there.
 */
#ifndef TESTS_ENGINE_LOAD_ST_MAKE_H
#define TESTS_ENGINE_LOAD_ST_MAKE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes n bytes as dir/name. */
static inline void put_file(const char *dir, const char *name, const void *p, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f))
        abort();
}

static inline void put_text(const char *dir, const char *name, const char *text)
{
    put_file(dir, name, text, strlen(text));
}

/* Length, header, data bytes 0, 1, 2, ... */
static inline size_t st_bytes(char *out, uint64_t len, const char *header, size_t n_data)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (char)(len >> 8 * i);
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        out[8 + n + i] = (char)i;
    return 8 + n + n_data;
}

static inline void put_st(const char *dir, const char *name, const char *header, size_t n_data)
{
    char *out = malloc(8 + strlen(header) + n_data);
    put_file(dir, name, out, st_bytes(out, strlen(header), header, n_data));
    free(out);
}

#endif
