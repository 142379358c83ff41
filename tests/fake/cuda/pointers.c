/* SPDX-License-Identifier: Apache-2.0
 *
 * A list for each struct of arguments, and the struct of each kernel.
 */
#include "tests/fake/cuda/pointers.h"

enum { END = -1 };

#define AT(s, m) (int)offsetof(struct k_##s, m)

/* Of a batch and a cache, which stand in `in`. */
#define RAGGED(s, in)                                                                              \
    AT(s, in batch.q_start), AT(s, in batch.kv_len), AT(s, in batch.seq_of), AT(s, in batch.pos),  \
        AT(s, in batch.cell), AT(s, in cache.k), AT(s, in cache.v)
#define DELTA(s, in)                                                                               \
    AT(s, in batch.q_start), AT(s, in batch.kv_len), AT(s, in batch.seq_of), AT(s, in batch.pos),  \
        AT(s, in batch.cell), AT(s, in state.at), AT(s, in state.from), AT(s, in state.to),        \
        AT(s, in state.kept), AT(s, in state.kept_len), AT(s, in q), AT(s, in k), AT(s, in v),     \
        AT(s, in rate), AT(s, in skip), AT(s, in y)
#define ATTN(s, in) RAGGED(s, in), AT(s, in q), AT(s, in y), AT(s, in lse)

static const int weight_pack_at[] = {AT(weight_pack, src), AT(weight_pack, w.data),
                                     AT(weight_pack, w.scale), END};
static const int weight_unpack_at[] = {AT(weight_unpack, w.data), AT(weight_unpack, w.scale),
                                       AT(weight_unpack, dst), END};
static const int rows_pack_at[] = {AT(rows_pack, x), AT(rows_pack, rows), END};
static const int cols_pack_at[] = {AT(cols_pack, x), AT(cols_pack, cols), END};
static const int linear_at[] = {AT(linear, rows),
                                AT(linear, w.data),
                                AT(linear, w.scale),
                                AT(linear, bias),
                                AT(linear, y),
                                AT(linear, gated),
                                END};
static const int linear_dx_at[] = {AT(linear_dx, rows), AT(linear_dx, w.data),
                                   AT(linear_dx, w.scale), AT(linear_dx, dx), END};
static const int linear_dw_at[] = {AT(linear_dw, dy), AT(linear_dw, x), AT(linear_dw, dw), END};
static const int lora_at[] = {AT(lora, x), AT(lora, group), AT(lora, n_used),
                              AT(lora, t), AT(lora, y),     END};
static const int lora_bwd_at[] = {
    AT(lora_bwd, fwd.x), AT(lora_bwd, fwd.group), AT(lora_bwd, fwd.n_used),
    AT(lora_bwd, fwd.t), AT(lora_bwd, fwd.y),     AT(lora_bwd, dy),
    AT(lora_bwd, dt),    AT(lora_bwd, dx),        END};
static const int dora_gain_at[] = {AT(dora_gain, w),
                                   AT(dora_gain, a),
                                   AT(dora_gain, b),
                                   AT(dora_gain, magnitude),
                                   AT(dora_gain, norm),
                                   AT(dora_gain, gain),
                                   END};
static const int dora_at[] = {AT(dora, y), AT(dora, bias), AT(dora, group), END};
static const int dora_dw_at[] = {AT(dora_dw, x), AT(dora_dw, dy), AT(dora_dw, bias),
                                 AT(dora_dw, group), END};
static const int route_at[] = {AT(route, x),          AT(route, bias),
                               AT(route, each),       AT(route, map.expert),
                               AT(route, map.weight), AT(route, map.share),
                               AT(route, map.place),  AT(route, map.from),
                               AT(route, map.start),  END};
static const int route_balance_at[] = {AT(route_balance, x), AT(route_balance, start),
                                       AT(route_balance, dx), END};
static const int route_bwd_at[] = {AT(route_bwd, fwd.x),
                                   AT(route_bwd, fwd.bias),
                                   AT(route_bwd, fwd.each),
                                   AT(route_bwd, fwd.map.expert),
                                   AT(route_bwd, fwd.map.weight),
                                   AT(route_bwd, fwd.map.share),
                                   AT(route_bwd, fwd.map.place),
                                   AT(route_bwd, fwd.map.from),
                                   AT(route_bwd, fwd.map.start),
                                   AT(route_bwd, dweight),
                                   AT(route_bwd, dx),
                                   END};
static const int experts_pack_at[] = {AT(experts_pack, x), AT(experts_pack, from),
                                      AT(experts_pack, start), AT(experts_pack, rows), END};
static const int experts_at[] = {AT(experts, rows),
                                 AT(experts, stack.w.data),
                                 AT(experts, stack.w.scale),
                                 AT(experts, stack.start),
                                 AT(experts, stack.saved),
                                 AT(experts, y),
                                 END};
static const int experts_dw_at[] = {AT(experts_dw, dy),
                                    AT(experts_dw, x),
                                    AT(experts_dw, from_dy),
                                    AT(experts_dw, from_x),
                                    AT(experts_dw, start),
                                    AT(experts_dw, dw),
                                    END};
static const int experts_sum_at[] = {AT(experts_sum, x), AT(experts_sum, weight),
                                     AT(experts_sum, place), AT(experts_sum, y), END};
static const int experts_weigh_at[] = {AT(experts_weigh, weight),  AT(experts_weigh, from),
                                       AT(experts_weigh, h),       AT(experts_weigh, dh),
                                       AT(experts_weigh, dweight), END};
static const int experts_rows_at[] = {AT(experts_rows, x),      AT(experts_rows, from),
                                      AT(experts_rows, weight), AT(experts_rows, n_used),
                                      AT(experts_rows, y),      END};
static const int experts_groups_at[] = {AT(experts_groups, group),  AT(experts_groups, from),
                                        AT(experts_groups, start),  AT(experts_groups, to),
                                        AT(experts_groups, n_used), END};
static const int experts_bias_at[] = {AT(experts_bias, bias),
                                      AT(experts_bias, dy),
                                      AT(experts_bias, from),
                                      AT(experts_bias, start),
                                      AT(experts_bias, y),
                                      AT(experts_bias, dweight),
                                      END};
static const int experts_bias_dw_at[] = {AT(experts_bias_dw, dy),    AT(experts_bias_dw, weight),
                                         AT(experts_bias_dw, from),  AT(experts_bias_dw, start),
                                         AT(experts_bias_dw, dbias), END};
static const int embed_at[] = {AT(embed, token), AT(embed, table.data), AT(embed, table.scale),
                               AT(embed, y),     AT(embed, saved),      END};
static const int embed_bwd_at[] = {AT(embed_bwd, token), AT(embed_bwd, dy), AT(embed_bwd, dtable),
                                   END};
static const int norm_at[] = {AT(norm, x), AT(norm, residual), AT(norm, weight), AT(norm, bias),
                              AT(norm, y), AT(norm, sum),      AT(norm, stat),   END};
static const int norm_bwd_at[] = {
    AT(norm_bwd, x),  AT(norm_bwd, weight),  AT(norm_bwd, dy),    AT(norm_bwd, stat),
    AT(norm_bwd, dx), AT(norm_bwd, dweight), AT(norm_bwd, dbias), END};
static const int rope_at[] = {AT(rope, x),   AT(rope, y),   AT(rope, pos),
                              AT(rope, cos), AT(rope, sin), END};
static const int swiglu_at[] = {AT(swiglu, gate), AT(swiglu, up), AT(swiglu, y), END};
static const int swiglu_bwd_at[] = {AT(swiglu_bwd, gate),  AT(swiglu_bwd, up),  AT(swiglu_bwd, dy),
                                    AT(swiglu_bwd, dgate), AT(swiglu_bwd, dup), END};
static const int row_gate_at[] = {AT(row_gate, x), AT(row_gate, gate), AT(row_gate, y), END};
static const int row_gate_bwd_at[] = {AT(row_gate_bwd, x),     AT(row_gate_bwd, gate),
                                      AT(row_gate_bwd, dy),    AT(row_gate_bwd, dx),
                                      AT(row_gate_bwd, dgate), END};
static const int mix_at[] = {AT(mix, base), AT(mix, x), AT(mix, c), AT(mix, y), END};
static const int mix_dot_at[] = {AT(mix_dot, a), AT(mix_dot, b), AT(mix_dot, y), END};
static const int match_at[] = {AT(match, x), AT(match, like), AT(match, dy),
                               AT(match, y), AT(match, dx),   AT(match, dlike),
                               END};
static const int cutoff_at[] = {AT(cutoff, x), AT(cutoff, dy), AT(cutoff, y), END};
static const int swiglu_clamped_at[] = {AT(swiglu_clamped, gate),
                                        AT(swiglu_clamped, up),
                                        AT(swiglu_clamped, dy),
                                        AT(swiglu_clamped, y),
                                        AT(swiglu_clamped, dgate),
                                        AT(swiglu_clamped, dup),
                                        END};
static const int gelu_at[] = {AT(gelu, x), AT(gelu, dy), AT(gelu, y), END};
static const int softcap_at[] = {AT(softcap, x), AT(softcap, dy), AT(softcap, y), END};
static const int binary_at[] = {AT(binary, a), AT(binary, b), AT(binary, y), END};
static const int scale_at[] = {AT(scale, x), AT(scale, y), END};
static const int cast_at[] = {AT(cast, x), AT(cast, y), END};
static const int copy_at[] = {AT(copy, x), AT(copy, y), END};
static const int fold_at[] = {AT(fold, x), AT(fold, y), END};
static const int row_scale_at[] = {AT(row_scale, x), AT(row_scale, scale), AT(row_scale, y),
                                   AT(row_scale, pos), END};
static const int heads_at[] = {AT(heads, x), AT(heads, tail), AT(heads, y), END};
static const int heads_bwd_at[] = {AT(heads_bwd, fwd.x), AT(heads_bwd, fwd.tail),
                                   AT(heads_bwd, fwd.y), AT(heads_bwd, dx),
                                   AT(heads_bwd, dtail), END};
static const int regroup_at[] = {AT(regroup, x), AT(regroup, y), END};
static const int reorder_at[] = {AT(reorder, x), AT(reorder, y), AT(reorder, at), END};
static const int dropout_at[] = {AT(dropout, x), AT(dropout, y), AT(dropout, row_key), END};
static const int noise_at[] = {AT(noise, x),      AT(noise, y),       AT(noise, row_key),
                               AT(noise, seq_of), AT(noise, seq_len), END};
static const int gather_at[] = {AT(gather, x), AT(gather, index), AT(gather, y), END};
static const int col_sum_at[] = {AT(col_sum, x), AT(col_sum, y), END};
static const int softmax_at[] = {AT(softmax, x), AT(softmax, y), END};
static const int kv_write_at[] = {RAGGED(kv_write, ), AT(kv_write, k), AT(kv_write, v), END};
static const int rope_kv_at[] = {RAGGED(rope_kv, kv.),
                                 AT(rope_kv, kv.k),
                                 AT(rope_kv, kv.v),
                                 AT(rope_kv, q),
                                 AT(rope_kv, y),
                                 AT(rope_kv, turn),
                                 AT(rope_kv, cos),
                                 AT(rope_kv, sin),
                                 AT(rope_kv, q_weight),
                                 AT(rope_kv, k_weight),
                                 END};
static const int attn_at[] = {ATTN(attn, ), END};
static const int attn_part_at[] = {ATTN(attn_part, fwd.), AT(attn_part, part), END};
static const int attn_sink_at[] = {AT(attn_sink, sink), AT(attn_sink, y),     AT(attn_sink, lse),
                                   AT(attn_sink, dy),   AT(attn_sink, dsink), END};
static const int attn_bwd_at[] = {ATTN(attn_bwd, fwd.),
                                  AT(attn_bwd, dy),
                                  AT(attn_bwd, dq),
                                  AT(attn_bwd, dk),
                                  AT(attn_bwd, dv),
                                  AT(attn_bwd, part),
                                  END};
static const int conv_at[] = {RAGGED(conv, ), AT(conv, x), AT(conv, weight),
                              AT(conv, bias), AT(conv, y), END};
static const int conv_bwd_at[] = {
    RAGGED(conv_bwd, fwd.), AT(conv_bwd, fwd.x),   AT(conv_bwd, fwd.weight),
    AT(conv_bwd, fwd.bias), AT(conv_bwd, fwd.y),   AT(conv_bwd, dy),
    AT(conv_bwd, dx),       AT(conv_bwd, dweight), END};
static const int delta_rates_at[] = {
    AT(delta_rates, q),     AT(delta_rates, k),       AT(delta_rates, a),    AT(delta_rates, b),
    AT(delta_rates, a_log), AT(delta_rates, dt_bias), AT(delta_rates, rate), END};
static const int delta_at[] = {DELTA(delta, ), END};
static const int delta_bwd_at[] = {DELTA(delta_bwd, fwd.), AT(delta_bwd, dy),     AT(delta_bwd, dv),
                                   AT(delta_bwd, part),    AT(delta_bwd, border), END};
static const int delta_rates_bwd_at[] = {
    AT(delta_rates_bwd, fwd.q),     AT(delta_rates_bwd, fwd.k),
    AT(delta_rates_bwd, fwd.a),     AT(delta_rates_bwd, fwd.b),
    AT(delta_rates_bwd, fwd.a_log), AT(delta_rates_bwd, fwd.dt_bias),
    AT(delta_rates_bwd, fwd.rate),  AT(delta_rates_bwd, part),
    AT(delta_rates_bwd, dq),        AT(delta_rates_bwd, dk),
    AT(delta_rates_bwd, da),        AT(delta_rates_bwd, db),
    AT(delta_rates_bwd, da_log),    END};
static const int scan_rates_at[] = {AT(scan_rates, dt), AT(scan_rates, a_log),
                                    AT(scan_rates, dt_bias), AT(scan_rates, rate), END};
static const int scan_rates_bwd_at[] = {AT(scan_rates_bwd, fwd.dt),
                                        AT(scan_rates_bwd, fwd.a_log),
                                        AT(scan_rates_bwd, fwd.dt_bias),
                                        AT(scan_rates_bwd, fwd.rate),
                                        AT(scan_rates_bwd, part),
                                        AT(scan_rates_bwd, v),
                                        AT(scan_rates_bwd, dy),
                                        AT(scan_rates_bwd, dq),
                                        AT(scan_rates_bwd, dk),
                                        AT(scan_rates_bwd, ddt),
                                        AT(scan_rates_bwd, da_log),
                                        AT(scan_rates_bwd, dskip),
                                        END};
static const int ce_at[] = {AT(ce, logits), AT(ce, target), AT(ce, state), AT(ce, dloss), END};
static const int ce_top_at[] = {AT(ce_top, logits), AT(ce_top, id),    AT(ce_top, share),
                                AT(ce_top, rest),   AT(ce_top, logit), AT(ce_top, state),
                                AT(ce_top, others), AT(ce_top, dloss), END};
static const int pool_at[] = {AT(pool, x), AT(pool, y), AT(pool, start), END};
static const int l2norm_at[] = {AT(l2norm, x), AT(l2norm, dy), AT(l2norm, y), END};
static const int argmax_at[] = {AT(argmax, x), AT(argmax, best), END};
static const int top_select_at[] = {
    AT(top_select, logits), AT(top_select, top_k), AT(top_select, top_p),  AT(top_select, min_p),
    AT(top_select, id),     AT(top_select, prob),  AT(top_select, n_left), END};
static const int logit_edit_at[] = {AT(logit_edit, logits), AT(logit_edit, how),
                                    AT(logit_edit, edit), END};
static const int sample_at[] = {AT(sample, logits), AT(sample, how), AT(sample, best),
                                AT(sample, id), END};
static const int pick_at[] = {AT(pick, x), AT(pick, id), AT(pick, y), END};
static const int token_feed_at[] = {AT(token_feed, token), AT(token_feed, from), AT(token_feed, id),
                                    END};
static const int adamw_at[] = {AT(adamw, p), AT(adamw, m), AT(adamw, v), AT(adamw, g), END};
static const int adamw_weight_at[] = {AT(adamw_weight, w.data), AT(adamw_weight, low),
                                      AT(adamw_weight, a.m),    AT(adamw_weight, a.v),
                                      AT(adamw_weight, a.g),    END};
static const int moments_at[] = {AT(moments, x), AT(moments, code), AT(moments, power), END};
static const int sum_sq_at[] = {AT(sum_sq, x), AT(sum_sq, part), END};

static const int *const of_kernel[KERNEL_COUNT] = {
    [K_weight_pack] = weight_pack_at,
    [K_weight_unpack] = weight_unpack_at,
    [K_rows_pack] = rows_pack_at,
    [K_rows_q8] = rows_pack_at,
    [K_cols_pack] = cols_pack_at,
#define FORMAT(name, ...) [K_linear_##name] = linear_at, [K_linear_dx_##name] = linear_dx_at,
#include "kernels/format.def"
#undef FORMAT
    [K_linear_q8] = linear_at,
    [K_linear_dw_f32] = linear_dw_at,
    [K_linear_dw_bf16] = linear_dw_at,
    [K_lora] = lora_at,
    [K_lora_bwd] = lora_bwd_at,
    [K_lora_dw] = lora_bwd_at,
    [K_dora_gain] = dora_gain_at,
    [K_dora] = dora_at,
    [K_dora_dw] = dora_dw_at,
    [K_route] = route_at,
    [K_route_sort] = route_at,
    [K_route_bwd] = route_bwd_at,
    [K_route_balance] = route_balance_at,
    [K_experts_pack] = experts_pack_at,
    [K_experts] = experts_at,
    [K_experts_dx] = experts_at,
    [K_experts_dw] = experts_dw_at,
    [K_experts_sum] = experts_sum_at,
    [K_experts_weigh] = experts_weigh_at,
    [K_experts_rows] = experts_rows_at,
    [K_experts_groups] = experts_groups_at,
    [K_experts_bias] = experts_bias_at,
    [K_experts_bias_dot] = experts_bias_at,
    [K_experts_bias_dw] = experts_bias_dw_at,
    [K_embed] = embed_at,
    [K_embed_bwd] = embed_bwd_at,
    [K_rmsnorm] = norm_at,
    [K_rmsnorm_bwd] = norm_bwd_at,
    [K_rmsnorm_dw] = norm_bwd_at,
    [K_layernorm] = norm_at,
    [K_layernorm_bwd] = norm_bwd_at,
    [K_layernorm_dw] = norm_bwd_at,
    [K_rope] = rope_at,
    [K_swiglu] = swiglu_at,
    [K_swiglu_bwd] = swiglu_bwd_at,
    [K_glu] = swiglu_at,
    [K_glu_bwd] = swiglu_bwd_at,
    [K_swiglu_clamped] = swiglu_clamped_at,
    [K_swiglu_clamped_bwd] = swiglu_clamped_at,
    [K_gelu] = gelu_at,
    [K_gelu_bwd] = gelu_at,
    [K_softcap] = softcap_at,
    [K_softcap_bwd] = softcap_at,
    [K_add] = binary_at,
    [K_mul] = binary_at,
    [K_scale] = scale_at,
    [K_cast] = cast_at,
    [K_copy] = copy_at,
    [K_fold] = fold_at,
    [K_regroup] = regroup_at,
    [K_reorder] = reorder_at,
    [K_row_gate] = row_gate_at,
    [K_row_gate_bwd] = row_gate_bwd_at,
    [K_mix] = mix_at,
    [K_mix_dot] = mix_dot_at,
    [K_match] = match_at,
    [K_match_bwd] = match_at,
    [K_cutoff] = cutoff_at,
    [K_cutoff_bwd] = cutoff_at,
    [K_row_scale] = row_scale_at,
    [K_heads] = heads_at,
    [K_heads_bwd] = heads_bwd_at,
    [K_dropout] = dropout_at,
    [K_noise] = noise_at,
    [K_gather] = gather_at,
    [K_scatter_add] = gather_at,
    [K_col_sum] = col_sum_at,
    [K_softmax] = softmax_at,
    [K_log_softmax] = softmax_at,
    [K_kv_write] = kv_write_at,
    [K_rope_kv] = rope_kv_at,
    [K_attn] = attn_at,
    [K_attn_part] = attn_part_at,
    [K_attn_merge] = attn_part_at,
    [K_attn_sink] = attn_sink_at,
    [K_attn_sink_dw] = attn_sink_at,
    [K_attn_bwd_q] = attn_bwd_at,
    [K_attn_bwd_kv] = attn_bwd_at,
    [K_conv] = conv_at,
    [K_conv_keep] = conv_at,
    [K_conv_bwd] = conv_bwd_at,
    [K_conv_dw] = conv_bwd_at,
    [K_delta_rates] = delta_rates_at,
    [K_delta] = delta_at,
    [K_delta_bwd] = delta_bwd_at,
    [K_delta_rates_bwd] = delta_rates_bwd_at,
    [K_scan_rates] = scan_rates_at,
    [K_scan_rates_bwd] = scan_rates_bwd_at,
    [K_ce_fwd] = ce_at,
    [K_ce_bwd] = ce_at,
    [K_ce_take] = ce_top_at,
    [K_ce_put] = ce_top_at,
    [K_mean_pool] = pool_at,
    [K_mean_pool_bwd] = pool_at,
    [K_l2norm] = l2norm_at,
    [K_l2norm_bwd] = l2norm_at,
    [K_argmax] = argmax_at,
    [K_top_select] = top_select_at,
    [K_logit_edit] = logit_edit_at,
    [K_sample] = sample_at,
    [K_pick] = pick_at,
    [K_token_feed] = token_feed_at,
    [K_adamw] = adamw_at,
    [K_adamw_weight] = adamw_weight_at,
    [K_moments_unpack] = moments_at,
    [K_moments_pack] = moments_at,
    [K_sum_sq] = sum_sq_at,
};

int pointers_of(enum kernel_id k, size_t at[POINTER_MAX])
{
    int n = 0;
    for (; of_kernel[k][n] != END; n++)
        at[n] = (size_t)of_kernel[k][n];
    return n;
}
