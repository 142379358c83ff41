/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of packed matrices share: the values of one, and a golden with a part changed.
 */
#ifndef TESTS_ENGINE_LOAD_PACKED_CHECK_H
#define TESTS_ENGINE_LOAD_PACKED_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/load/packed_weight.h"
#include "kernels/coded.h"
#include "kernels/format.h"
#include "tests/engine/load/st_make.h"
#include "tests/lib/test.h"

static inline const struct weight *part_of(const struct weights *w, const char *name,
                                           const char *what)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const struct weight *x = weights_get(w, full);
    assert_non_null(x);
    return x;
}

/* The codes of the matrix, packed, mean what it reads as. */
static inline void check_coded(const struct weight *w, const float *want)
{
    struct err e = ERR_INIT;
    struct kernel_table table;
    int64_t n = weight_rows(w), k = weight_row_len(w);
    enum k_type type = weight_coded(w);
    struct k_weight_pack a = {.src_type = type, .ld_src = k, .n_src = n};
    size_t bytes = k_weight_bytes(type, n, k);
    void *data = try_alloc(1, bytes, "a weight", &e), *src = xcalloc((size_t)(n * k), 2);
    float *got = xcalloc((size_t)(n * k), sizeof *got);
    assert_int_equal(k % weight_coded_inputs(w), 0);
    assert_good(weight_read_coded(w, 0, 0, n * k, src, &e), &e);
    a.src = src;
    k_weight_bind(&a.w, type, n, k, data);
    struct k_weight_unpack b = {.w = a.w, .dst = got, .ld_dst = k};
    kernel_table_init(&table, getenv("TEST_KERNELS"));
    kernel_run(&table, K_weight_pack, &a, NULL);
    kernel_run(&table, K_weight_unpack, &b, NULL);
    const int32_t *order = weight_order(w);
    for (int64_t i = 0; i < n * k; i++) {
        int64_t at = order ? i / k * k + order[i % k] : i;
        assert_memory_equal(got + i, want + at, sizeof *got);
    }
    free(got);
    free(src);
    mem_free(data);
}

/* NAME.weight is NAME.want, read in several ways, and its codes are some of that format. */
static inline void check_packed(const struct weights *w, const char *name, enum k_type coded)
{
    struct err e = ERR_INIT;
    const struct weight *x = part_of(w, name, "weight");
    int64_t n = weight_rows(x), k = weight_row_len(x), at = 3 * k + k - 19;
    float *want = xcalloc((size_t)(n * k), sizeof *want), *got = xcalloc((size_t)(n * k), 4);
    assert_good(weight_read_f32(part_of(w, name, "want"), 0, n, want, &e), &e);
    assert_good(weight_read_f32(x, 0, n, got, &e), &e);
    assert_memory_equal(got, want, (size_t)(n * k) * sizeof *got);
    assert_good(weight_read_at(x, 3, k - 19, 2 * k, got, &e), &e); /* over the ends of rows */
    assert_memory_equal(got, want + at, (size_t)(2 * k) * sizeof *got);
    if (weight_coded(x) != coded)
        fail_msg("%s: %s", name, k_format(weight_coded(x))->name);
    if (coded != K_F32)
        check_coded(x, want);
    free(want);
    free(got);
}

/* dir/model.safetensors, with n bytes of a part of it from `at` on changed, goes to `to`. */
static inline void put_spoilt(const char *dir, const char *to, const char *part, size_t at,
                              const void *p, size_t n)
{
    static char all[1 << 18];
    char path[256];
    uint64_t header;
    struct err e = ERR_INIT;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(all, 1, sizeof all, f);
    assert_true(feof(f));
    fclose(f);
    struct st_file *st = st_open(path, "model.safetensors", &e);
    assert_good(st ? 0 : -1, &e);
    const struct st_tensor *t = st_header_get(st_file_header(st), part);
    assert_non_null(t);
    memcpy(&header, all, sizeof header);
    memcpy(all + 8 + header + t->begin + at, p, n);
    st_close(st);
    put_file(to, "model.safetensors", all, size);
}

#endif
