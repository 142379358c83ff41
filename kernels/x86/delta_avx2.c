/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule and scans at this level: kernels/x86/delta.h, delta_bwd.h and scan.h have
 * the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/scan.h"

void delta_rates_avx2(const void *args, const struct k_slice *s)
{
    delta_rates_rows(args, s->lo, s->hi);
}

void delta_avx2(const void *args, const struct k_slice *s)
{
    delta_units(args, s);
}

void delta_bwd_avx2(const void *args, const struct k_slice *s)
{
    delta_halves(args, s);
}

void delta_rates_bwd_avx2(const void *args, const struct k_slice *s)
{
    delta_rates_bwd_rows(args, s->lo, s->hi);
}

void scan_rates_avx2(const void *args, const struct k_slice *s)
{
    scan_rates_rows(args, s->lo, s->hi);
}

void scan_rates_bwd_avx2(const void *args, const struct k_slice *s)
{
    scan_rates_bwd_rows(args, s->lo, s->hi);
}
