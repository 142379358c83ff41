/* SPDX-License-Identifier: Apache-2.0
 *
 * What our reader says of safetensors files, one after the other, for tests/tools/st_differ.py.
 * Standard input: for each file its length in four bytes, little-endian, and its bytes. Standard
 * output: for each one line, "no: WHY", or "ok" and for each tensor name in hexadecimal, type,
 * shape and place.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/st_header.h"

static void print_tensors(const struct st_header *h)
{
    printf("ok");
    for (size_t i = 0; i < h->n_tensor; i++) {
        const struct st_tensor *t = h->tensor[i];
        putchar(' ');
        for (const char *p = t->name; *p; p++)
            printf("%02x", (unsigned char)*p);
        printf(":%s:", st_dtype_name(t->dtype));
        for (int k = 0; k < t->rank; k++)
            printf("%s%lld", k ? "," : "", (long long)t->dim[k]);
        printf(":%llu:%llu", (unsigned long long)t->begin, (unsigned long long)t->end);
    }
    putchar('\n');
}

static void judge(const unsigned char *file, size_t n)
{
    struct st_header h;
    struct err e = ERR_INIT;
    uint64_t len = 0;
    for (int i = 7; i >= 0 && n >= 8; i--)
        len = len << 8 | file[i];
    if (n < 8 || len > ST_MAX_HEADER_BYTES || len > n - 8)
        printf("no: length\n");
    else if (st_header_init(&h, (const char *)file + 8, len, n - 8 - len, "f", &e))
        printf("no: %s\n", e.msg);
    else {
        print_tensors(&h);
        st_header_release(&h);
    }
}

int main(void)
{
    unsigned char b[4];
    while (fread(b, 1, 4, stdin) == 4) {
        size_t n = b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
        unsigned char *file = malloc(n ? n : 1);
        if (!file || fread(file, 1, n, stdin) != n)
            return 1;
        judge(file, n);
        free(file);
    }
    return 0;
}
