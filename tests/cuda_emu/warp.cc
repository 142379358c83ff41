/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions of a warp and asynchronous copies, by the register layouts of the PTX manual. A
 * product's sum runs over ascending k in f32: the hardware's own order is another, and both are
 * the same for every column.
 */
#include "tests/cuda_emu/warp.h"

#include <stddef.h>
#include <string.h>

#include "tests/cuda_emu/emu.h"

void __syncwarp(unsigned mask)
{
    (void)emu_warp_meet(WARP_SYNC, mask, nullptr);
}

static void ballot(struct warp_slot *s)
{
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++)
        bits |= s[i].in[0] << i;
    for (int i = 0; i < 32; i++)
        s[i].out[0] = bits;
}

uint32_t emu_ballot(unsigned mask, int predicate)
{
    struct warp_slot *mine = emu_warp_mine();
    mine->in[0] = predicate != 0;
    (void)emu_warp_meet(WARP_BALLOT, mask, ballot);
    return mine->out[0];
}

static float bf16(uint32_t word, int half)
{
    uint32_t u = half ? word & 0xffff0000u : word << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* A row of B, C or D. */
typedef float row8 __attribute__((vector_size(8 * sizeof(float))));

/* d += a b; four rows at a time, for a sum waits for the one before. */
static void product(row8 d[16], const float a[16][16], const row8 b[16])
{
    for (int i = 0; i < 16; i += 4) {
        row8 d0 = d[i], d1 = d[i + 1], d2 = d[i + 2], d3 = d[i + 3];
        for (int k = 0; k < 16; k++) {
            d0 += a[i][k] * b[k];
            d1 += a[i + 1][k] * b[k];
            d2 += a[i + 2][k] * b[k];
            d3 += a[i + 3][k] * b[k];
        }
        d[i] = d0;
        d[i + 1] = d1;
        d[i + 2] = d2;
        d[i + 3] = d3;
    }
}

/* A: 16 x 16, B: 16 x 8, C and D: 16 x 8. Lane 4g + t holds, of A, rows g and g + 8 at columns
 * 2t, 2t + 1 and those 8 further; of B the same rows of column g; of D, columns 2t and 2t + 1. */
static void mma(struct warp_slot *s)
{
    float a[16][16];
    row8 b[16], d[16];
    for (int lane = 0; lane < 32; lane++) {
        int g = lane / 4, t = lane % 4;
        const uint32_t *in = s[lane].in;
        for (int h = 0; h < 2; h++) {
            a[g][2 * t + h] = bf16(in[0], h);
            a[g + 8][2 * t + h] = bf16(in[1], h);
            a[g][2 * t + 8 + h] = bf16(in[2], h);
            a[g + 8][2 * t + 8 + h] = bf16(in[3], h);
            b[2 * t + h][g] = bf16(in[4], h);
            b[2 * t + 8 + h][g] = bf16(in[5], h);
        }
        memcpy((float *)&d[g] + 2 * t, in + 6, 2 * sizeof(float));
        memcpy((float *)&d[g + 8] + 2 * t, in + 8, 2 * sizeof(float));
    }
    product(d, a, b);
    for (int lane = 0; lane < 32; lane++) {
        int g = lane / 4, t = lane % 4;
        memcpy(s[lane].out, (float *)&d[g] + 2 * t, 2 * sizeof(float));
        memcpy(s[lane].out + 2, (float *)&d[g + 8] + 2 * t, 2 * sizeof(float));
    }
}

void emu_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    struct warp_slot *mine = emu_warp_mine();
    memcpy(mine->in, a, 4 * sizeof *a);
    memcpy(mine->in + 4, b, 2 * sizeof *b);
    memcpy(mine->in + 6, d, 4 * sizeof *d);
    (void)emu_warp_meet(WARP_MMA, 0xffffffffu, mma);
    memcpy(d, mine->out, 4 * sizeof *d);
}

/* Lane 8i + r names row r of matrix i, 16 bytes; lane 4g + t gets elements 2t and 2t + 1 of row g
 * of each matrix, or of its column g when transposed. */
static void ldmatrix(struct warp_slot *s)
{
    for (int lane = 0; lane < 32; lane++) {
        int g = lane / 4, t = lane % 4, n = (int)s[lane].in[0];
        for (int i = 0; i < n; i++) {
            uint16_t pair[2];
            for (int h = 0; h < 2; h++) {
                int row = s[lane].in[1] ? 2 * t + h : g, col = s[lane].in[1] ? g : 2 * t + h;
                memcpy(&pair[h], (const char *)s[8 * i + row].row + 2 * col, 2);
            }
            memcpy(&s[lane].out[i], pair, 4);
        }
    }
}

void emu_ldmatrix(uint32_t *d, const void *row, int n_matrix, bool is_transposed)
{
    struct warp_slot *mine = emu_warp_mine();
    if ((uintptr_t)row % 16 != 0)
        emu_fault("a matrix row that is not 16-aligned");
    mine->row = row;
    mine->in[0] = (uint32_t)n_matrix;
    mine->in[1] = is_transposed;
    (void)emu_warp_meet(WARP_LDMATRIX, 0xffffffffu, ldmatrix);
    memcpy(d, mine->out, (size_t)n_matrix * sizeof *d);
}

/* What is overwritten too early shows: the place holds NaN from here until the copy has landed. */
void emu_copy_async(void *shared, const void *global, int bytes, int from_bytes)
{
    struct copies *c = emu_copies();
    if (c->n == COPIES_MAX)
        emu_fault("too many copies under way");
    if ((uintptr_t)shared % (unsigned)bytes || (from_bytes && (uintptr_t)global % (unsigned)bytes))
        emu_fault("an asynchronous copy that is not aligned");
    memset(shared, 0xff, (size_t)bytes);
    c->copy[c->n++] = (struct copy){shared, global, bytes, from_bytes, c->group};
}

void emu_copy_commit()
{
    struct copies *c = emu_copies();
    c->group++;
}

/* All but the last `n_left` groups land. */
void emu_copy_wait(int n_left)
{
    struct copies *c = emu_copies();
    int kept = 0;
    for (int i = 0; i < c->n; i++) {
        struct copy *m = &c->copy[i];
        if (m->group >= c->group - n_left) {
            c->copy[kept++] = *m;
            continue;
        }
        memcpy(m->to, m->from, (size_t)m->from_bytes);
        memset((char *)m->to + m->from_bytes, 0, (size_t)(m->bytes - m->from_bytes));
    }
    c->n = kept;
}
