/* SPDX-License-Identifier: Apache-2.0
 *
 * See gguf_names.h. A style's own rows go before the common ones.
 */
#include "engine/load/gguf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/config.h"

#define ROWS(r) (r), (int)(sizeof(r) / sizeof *(r))

#define NAME(there_, here_, ...)                                                                   \
    {                                                                                              \
        .there = (there_), .here = (here_), __VA_ARGS__                                            \
    }

static const struct gguf_name plain_rows[] = {
    NAME("token_embd.weight", "model.embed_tokens.weight"),
    NAME("output_norm.weight", "model.norm.weight"),
    NAME("output.weight", "lm_head.weight"),
    NAME(".attn_norm.weight", ".input_layernorm.weight"),
    NAME(".attn_q.weight", ".self_attn.q_proj.weight", .order = GGUF_ORDER_TURNED),
    NAME(".attn_q.bias", ".self_attn.q_proj.bias", .order = GGUF_ORDER_TURNED),
    NAME(".attn_k.weight", ".self_attn.k_proj.weight", .order = GGUF_ORDER_TURNED),
    NAME(".attn_k.bias", ".self_attn.k_proj.bias", .order = GGUF_ORDER_TURNED),
    NAME(".attn_v.weight", ".self_attn.v_proj.weight"),
    NAME(".attn_v.bias", ".self_attn.v_proj.bias"),
    NAME(".attn_output.weight", ".self_attn.o_proj.weight"),
    NAME(".attn_output.bias", ".self_attn.o_proj.bias"),
    NAME(".attn_q_norm.weight", ".self_attn.q_norm.weight"),
    NAME(".attn_k_norm.weight", ".self_attn.k_norm.weight"),
    NAME(".ffn_norm.weight", ".post_attention_layernorm.weight"),
    NAME(".ffn_gate.weight", ".mlp.gate_proj.weight"),
    NAME(".ffn_gate.bias", ".mlp.gate_proj.bias"),
    NAME(".ffn_up.weight", ".mlp.up_proj.weight"),
    NAME(".ffn_up.bias", ".mlp.up_proj.bias"),
    NAME(".ffn_down.weight", ".mlp.down_proj.weight"),
    NAME(".ffn_down.bias", ".mlp.down_proj.bias"),
};

static const struct gguf_name mixture_rows[] = {
    /* the first alone is written */
    NAME(".ffn_gate_inp.weight", ".mlp.gate.weight"),
    NAME(".ffn_gate_shexp.weight", ".mlp.shared_expert.gate_proj.weight"),
    NAME(".ffn_up_shexp.weight", ".mlp.shared_expert.up_proj.weight"),
    NAME(".ffn_down_shexp.weight", ".mlp.shared_expert.down_proj.weight"),
    NAME(".ffn_gate_inp_shexp.weight", ".mlp.shared_expert_gate.weight", .form = GGUF_FORM_ROW),
};

static const struct gguf_name llama_rows[] = {
    NAME(".ffn_gate_inp.weight", ".block_sparse_moe.gate.weight"),
};

static const struct gguf_name routed_rows[] = {
    NAME(".post_attention_norm.weight", ".post_attention_layernorm.weight"),
    NAME(".attn_sinks.weight", ".self_attn.sinks"),
    NAME(".ffn_gate_inp.weight", ".mlp.router.weight"),
    NAME(".ffn_gate_inp.bias", ".mlp.router.bias"),
};

static const struct gguf_name conv_rows[] = {
    NAME("token_embd_norm.weight", "model.embedding_norm.weight"),
    NAME("output_norm.weight", "model.embedding_norm.weight"),
    NAME(".attn_norm.weight", ".operator_norm.weight"),
    NAME(".attn_q.weight", ".self_attn.q_proj.weight"),
    NAME(".attn_k.weight", ".self_attn.k_proj.weight"),
    NAME(".attn_q_norm.weight", ".self_attn.q_layernorm.weight"),
    NAME(".attn_k_norm.weight", ".self_attn.k_layernorm.weight"),
    NAME(".attn_output.weight", ".self_attn.out_proj.weight"),
    NAME(".ffn_norm.weight", ".ffn_norm.weight"),
    NAME(".ffn_gate.weight", ".feed_forward.w1.weight"),
    NAME(".ffn_up.weight", ".feed_forward.w3.weight"),
    NAME(".ffn_down.weight", ".feed_forward.w2.weight"),
    NAME(".shortconv.conv.weight", ".conv.conv.weight", .form = GGUF_FORM_CONV),
    NAME(".shortconv.in_proj.weight", ".conv.in_proj.weight"),
    NAME(".shortconv.out_proj.weight", ".conv.out_proj.weight"),
};

/* Norms of the stream and of heads are 1 + weight there, that of what the rule gives is not. */
static const struct gguf_name delta_norm_rows[] = {
    NAME("output_norm.weight", "model.norm.weight", .change = GGUF_CHANGE_MINUS_ONE),
    NAME(".attn_norm.weight", ".input_layernorm.weight", .change = GGUF_CHANGE_MINUS_ONE),
    NAME(".post_attention_norm.weight", ".post_attention_layernorm.weight",
         .change = GGUF_CHANGE_MINUS_ONE),
    NAME(".attn_q_norm.weight", ".self_attn.q_norm.weight", .change = GGUF_CHANGE_MINUS_ONE),
    NAME(".attn_k_norm.weight", ".self_attn.k_norm.weight", .change = GGUF_CHANGE_MINUS_ONE),
    NAME(".ssm_norm.weight", ".linear_attn.norm.weight"),
};

static const struct gguf_name delta_rows[] = {
    NAME(".attn_qkv.weight", ".linear_attn.in_proj_qkv.weight", .order = GGUF_ORDER_QKV),
    NAME(".attn_gate.weight", ".linear_attn.in_proj_z.weight", .order = GGUF_ORDER_V_ROWS),
    NAME(".ssm_beta.weight", ".linear_attn.in_proj_b.weight", .order = GGUF_ORDER_V_HEADS),
    NAME(".ssm_alpha.weight", ".linear_attn.in_proj_a.weight", .order = GGUF_ORDER_V_HEADS),
    NAME(".ssm_a", ".linear_attn.A_log", .order = GGUF_ORDER_V_HEADS, .change = GGUF_CHANGE_LOG),
    NAME(".ssm_dt.bias", ".linear_attn.dt_bias", .order = GGUF_ORDER_V_HEADS),
    NAME(".ssm_conv1d.weight", ".linear_attn.conv1d.weight", .order = GGUF_ORDER_QKV,
         .form = GGUF_FORM_CONV),
    NAME(".ssm_out.weight", ".linear_attn.out_proj.weight", .order = GGUF_ORDER_V_COLS),
};

static const struct gguf_name delta_joined_rows[] = {
    NAME(".attn_qkv.weight", ".linear_attn.in_proj_qkv.weight"),
    NAME(".attn_gate.weight", ".linear_attn.in_proj_z.weight"),
    NAME(".ssm_ba.weight", ".linear_attn.in_proj_b.weight", .order = GGUF_ORDER_B),
    NAME(".ssm_ba.weight", ".linear_attn.in_proj_a.weight", .order = GGUF_ORDER_A),
    NAME(".ssm_a", ".linear_attn.A_log", .change = GGUF_CHANGE_LOG),
    NAME(".ssm_dt.bias", ".linear_attn.dt_bias"),
    NAME(".ssm_conv1d.weight", ".linear_attn.conv1d.weight", .form = GGUF_FORM_CONV),
    NAME(".ssm_out.weight", ".linear_attn.out_proj.weight"),
};

/* Of a style in the order in which they are asked. */
static const struct {
    const struct gguf_name *row;
    int n;
    unsigned styles; /* bit i: enum gguf_style */
} table[] = {
    {ROWS(llama_rows), 1u << GGUF_STYLE_LLAMA},
    {ROWS(routed_rows), 1u << GGUF_STYLE_ROUTED},
    {ROWS(conv_rows), 1u << GGUF_STYLE_CONV},
    {ROWS(delta_norm_rows), 1u << GGUF_STYLE_DELTA | 1u << GGUF_STYLE_DELTA_JOINED},
    {ROWS(delta_rows), 1u << GGUF_STYLE_DELTA},
    {ROWS(delta_joined_rows), 1u << GGUF_STYLE_DELTA_JOINED},
    {ROWS(mixture_rows),
     1u << GGUF_STYLE_PLAIN | 1u << GGUF_STYLE_DELTA | 1u << GGUF_STYLE_DELTA_JOINED},
    {ROWS(plain_rows), ~0u},
};

static const struct gguf_stack stack_row[] = {
    {".ffn_gate_exps.weight", "gate_proj.weight", "w1.weight", false},
    {".ffn_up_exps.weight", "up_proj.weight", "w3.weight", false},
    {".ffn_down_exps.weight", "down_proj.weight", "w2.weight", false},
    {".ffn_gate_exps.bias", "gate_proj.bias", "w1.bias", true},
    {".ffn_up_exps.bias", "up_proj.bias", "w3.bias", true},
    {".ffn_down_exps.bias", "down_proj.bias", "w2.bias", true},
};

int gguf_name_layer(const char *name, const char **rest)
{
    char *end;
    *rest = name;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9')
        return -1;
    long n = strtol(name + 4, &end, 10);
    if (*end != '.' || n >= CONFIG_LAYER_MAX || (name[4] == '0' && end != name + 5))
        return -1;
    *rest = end;
    return (int)n;
}

const struct gguf_name *gguf_name_find(enum gguf_style style, const char *rest, int *n)
{
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        for (int i = 0; (table[t].styles >> style & 1) && i < table[t].n; i++) {
            const struct gguf_name *row = &table[t].row[i];
            if (strcmp(rest, row->there) != 0)
                continue;
            *n = i + 1 < table[t].n && strcmp(rest, row[1].there) == 0 ? 2 : 1;
            return row;
        }
    }
    return NULL;
}

const struct gguf_stack *gguf_stack_find(const char *rest)
{
    for (size_t i = 0; i < sizeof stack_row / sizeof *stack_row; i++)
        if (strcmp(rest, stack_row[i].there) == 0)
            return &stack_row[i];
    return NULL;
}

/* ---- the other way -------------------------------------------------------------------------- */

static const struct gguf_name *find_here(const char *here, bool is_of_layer)
{
    static const char model[] = "model.";
    static const struct {
        const struct gguf_name *row;
        int n;
    } from[] = {{ROWS(plain_rows)}, {mixture_rows, 1}, {ROWS(llama_rows)}};
    for (size_t t = 0; t < sizeof from / sizeof *from; t++) {
        for (int i = 0; i < from[t].n; i++) {
            const char *own = from[t].row[i].here;
            if (!is_of_layer && strncmp(own, model, sizeof model - 1) == 0)
                own += sizeof model - 1;
            if (strcmp(own, here) == 0)
                return &from[t].row[i];
        }
    }
    return NULL;
}

/* ".mlp.experts.3.up_proj.weight" */
static const struct gguf_stack *find_stack_here(const char *here, int64_t *expert)
{
    static const char *const before[] = {".mlp.experts.", ".block_sparse_moe.experts."};
    for (size_t b = 0; b < sizeof before / sizeof *before; b++) {
        char *end;
        size_t len = strlen(before[b]);
        if (strncmp(here, before[b], len) != 0)
            continue;
        *expert = strtol(here + len, &end, 10);
        for (size_t i = 0; *end == '.' && i < sizeof stack_row / sizeof *stack_row; i++)
            if (strcmp(end + 1, b == 0 ? stack_row[i].mlp : stack_row[i].block) == 0)
                return &stack_row[i];
    }
    *expert = -1;
    return NULL;
}

bool gguf_tensor_name(const char *param, char name[ST_MAX_NAME_BYTES], bool *is_permuted,
                      int64_t *expert)
{
    static const char layers[] = "layers.";
    char *rest = NULL;
    bool is_of_layer = strncmp(param, layers, sizeof layers - 1) == 0;
    long layer = is_of_layer ? strtol(param + sizeof layers - 1, &rest, 10) : 0;
    const char *here = is_of_layer ? rest : param;
    const struct gguf_stack *stack = find_stack_here(here, expert);
    const struct gguf_name *row = stack ? NULL : find_here(here, is_of_layer);
    if (!stack && !row)
        return false;
    const char *there = stack ? stack->there : row->there;
    snprintf(name, ST_MAX_NAME_BYTES, "%s", there);
    if (is_of_layer)
        snprintf(name, ST_MAX_NAME_BYTES, "blk.%ld%s", layer, there);
    *is_permuted = row && row->order == GGUF_ORDER_TURNED;
    return true;
}
