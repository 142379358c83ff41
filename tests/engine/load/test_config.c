/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/load/config: each family's spelling of its fields, its class's defaults,
 * and values that the engine cannot compute, each refused by name.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load/config.h"
#include "tests/lib/test.h"

#define LLAMA                                                                                      \
    "\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":100,\"hidden_size\":48,"              \
    "\"intermediate_size\":80,\"num_hidden_layers\":3,\"num_attention_heads\":6,"                  \
    "\"max_position_embeddings\":64"
#define QWEN2                                                                                      \
    "\"architectures\":[\"Qwen2ForCausalLM\"],\"vocab_size\":100,\"hidden_size\":48,"              \
    "\"intermediate_size\":80,\"num_hidden_layers\":3,\"num_attention_heads\":6,"                  \
    "\"num_key_value_heads\":2,\"max_position_embeddings\":64"
#define SIZES                                                                                      \
    "\"vocab_size\":9,\"hidden_size\":16,\"intermediate_size\":8,\"num_hidden_layers\":5,"         \
    "\"num_attention_heads\":4,\"max_position_embeddings\":99"
#define GEMMA2      "\"architectures\":[\"Gemma2ForCausalLM\"],\"num_key_value_heads\":2," SIZES
#define GEMMA3      "\"architectures\":[\"Gemma3ForCausalLM\"],\"num_key_value_heads\":2," SIZES
#define GEMMA3_BODY "\"architectures\":[\"Gemma3TextModel\"],\"num_key_value_heads\":2," SIZES
#define SMOLLM3     "\"architectures\":[\"SmolLM3ForCausalLM\"],\"num_key_value_heads\":2," SIZES
#define MINISTRAL3  "{\"architectures\":[\"Ministral3ForCausalLM\"],\"num_key_value_heads\":2," SIZES
#define GRANITE     "\"architectures\":[\"GraniteForCausalLM\"]," SIZES
#define GRANITE_4                                                                                  \
    "\"architectures\":[\"GraniteMoeHybridForCausalLM\"],\"shared_intermediate_size\":12,"         \
    "\"mamba_n_heads\":4," SIZES
#define PHI3    "\"architectures\":[\"Phi3ForCausalLM\"]," SIZES
#define QWEN3_5 "\"architectures\":[\"Qwen3_5ForCausalLM\"],\"num_key_value_heads\":2," SIZES
#define LFM2    "\"architectures\":[\"Lfm2ForCausalLM\"],\"num_key_value_heads\":2," SIZES
#define VISION(type, text)                                                                         \
    "{\"architectures\":[\"" type "ForConditionalGeneration\"],\"eos_token_id\":[1,6],"            \
    "\"vision_config\":{\"hidden_size\":5},\"torch_dtype\":\"bfloat16\",\"text_config\":" text "}"
#define GPT2                                                                                       \
    "\"model_type\":\"gpt2\",\"vocab_size\":100,\"n_embd\":48,\"n_layer\":3,\"n_head\":6,"         \
    "\"n_positions\":64"
#define ROBERTA                                                                                    \
    "\"architectures\":[\"XLMRobertaModel\"],\"vocab_size\":100,\"hidden_size\":48,"               \
    "\"intermediate_size\":80,\"num_hidden_layers\":3,\"num_attention_heads\":6,"                  \
    "\"max_position_embeddings\":64"
#define BERT                                                                                       \
    "\"architectures\":[\"BertModel\"],\"vocab_size\":100,\"hidden_size\":48,"                     \
    "\"intermediate_size\":80,\"num_hidden_layers\":3,\"num_attention_heads\":6,"                  \
    "\"max_position_embeddings\":64"

static struct config parse(const char *text)
{
    struct config c;
    struct err e = ERR_INIT;
    assert_good(config_parse(&c, text, strlen(text), "config.json", &e), &e);
    return c;
}

/* Fault: a default that the class has, and the file leaves out, is another here. */
static void test_llama_defaults(void **state)
{
    (void)state;
    struct config c = parse("{" LLAMA "}");
    assert_int_equal(c.family, FAMILY_LLAMA);
    assert_int_equal(c.n_vocab, 100);
    assert_int_equal(c.d_model, 48);
    assert_int_equal(c.d_ff, 80);
    assert_int_equal(c.n_layer, 3);
    assert_int_equal(c.n_head, 6);
    assert_int_equal(c.n_kv_head, 6);
    assert_int_equal(c.d_head, 8);
    assert_int_equal(c.max_pos, 64);
    assert_true(c.norm_eps == 1e-6 && c.act == ACT_SILU);
    assert_false(c.is_tied || c.has_qkv_bias || c.has_o_bias || c.has_mlp_bias);
    assert_true(c.rope.kind == ROPE_DEFAULT && c.rope.theta == 10000);
    assert_int_equal(c.window, 0);
    assert_true(c.n_eos == 0 && c.bos == -1);
}

/* Fault: a field of the file is passed over. */
static void test_llama_fields(void **state)
{
    (void)state;
    struct config c = parse(
        "{" LLAMA ",\"num_key_value_heads\":2,\"head_dim\":10,\"rms_norm_eps\":1e-05,"
        "\"tie_word_embeddings\":true,\"attention_bias\":true,\"mlp_bias\":true,\"rope_theta\":5e5,"
        "\"bos_token_id\":1,\"eos_token_id\":[2,7],\"pad_token_id\":-1,\"rope_scaling\":{"
        "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
        "\"original_max_position_embeddings\":32}}");
    assert_int_equal(c.n_kv_head, 2);
    assert_int_equal(c.d_head, 10);
    assert_true(c.norm_eps == 1e-5 && c.is_tied);
    assert_true(c.has_qkv_bias && c.has_o_bias && c.has_mlp_bias);
    assert_true(c.bos == 1 && c.n_eos == 2 && c.eos[1] == 7 && c.pad == -1);
    assert_true(c.rope.kind == ROPE_LLAMA3 && c.rope.theta == 5e5 && c.rope.original_max_pos == 32);
}

/* Fault: the later spelling of rope is not read, or the earlier one rules over it. */
static void test_rope_parameters(void **state)
{
    (void)state;
    struct config c = parse("{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2,"
                            "\"rope_theta\":777.0},\"rope_theta\":10000}");
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.theta == 777 && c.rope.factor == 2);
    c = parse("{" LLAMA ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":3}}");
    assert_true(c.rope.kind == ROPE_DYNAMIC && c.rope.factor == 3);
    c = parse("{" LLAMA ",\"original_max_position_embeddings\":16,\"rope_scaling\":{\"type\":"
              "\"longrope\",\"short_factor\":[1,1,1,2],\"long_factor\":[4,5,6,7]}}");
    assert_true(c.rope.kind == ROPE_LONGROPE && c.rope.factor == 4 && c.rope.n_factor == 4);
    assert_true(c.rope.short_factor[3] == 2 && c.rope.long_factor[0] == 4);
    c = parse("{" LLAMA ",\"original_max_position_embeddings\":16,\"rope_scaling\":{\"type\":"
              "\"longrope\",\"factor\":3,\"short_factor\":[1,1,1,2],\"long_factor\":[4,5,6,7]}}");
    assert_true(c.rope.factor == 3 && c.rope.original_max_pos == 16);
    c = parse("{" LLAMA ",\"original_max_position_embeddings\":16,\"rope_scaling\":{\"type\":"
              "\"yarn\",\"factor\":4,\"original_max_position_embeddings\":32}}");
    assert_int_equal(c.rope.original_max_pos, 16);
    c = parse("{" LLAMA ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":0.5}}");
    assert_true(c.rope.beta_fast == 32 && c.rope.beta_slow == 1 && c.rope.truncate);
    assert_true(c.rope.mscale == 0.5 && c.rope.original_max_pos == 0);
    c = parse("{" LLAMA ",\"rope_scaling\":null}");
    assert_int_equal(c.rope.kind, ROPE_DEFAULT);
}

/* Fault: which layers slide is decided by the wrong family's rule. */
static void test_windows(void **state)
{
    (void)state;
    struct config c = parse("{" QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":16,"
                            "\"max_window_layers\":1}");
    assert_int_equal(c.family, FAMILY_QWEN2);
    assert_true(c.has_qkv_bias && !c.has_o_bias);
    assert_int_equal(c.window, 16);
    assert_true(!c.slides[0] && c.slides[1] && c.slides[2]);
    c = parse("{" QWEN2 ",\"use_sliding_window\":false,\"sliding_window\":16}");
    assert_int_equal(c.window, 0);
    c = parse("{" QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":16,\"layer_types\":["
              "\"full_attention\",\"full_attention\",\"sliding_attention\"]}");
    assert_true(c.window == 16 && !c.slides[0] && !c.slides[1] && c.slides[2]);
    c = parse("{" QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":16,\"layer_types\":["
              "\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}");
    assert_true(c.window == 16 && c.slides[0] && !c.slides[1] && c.slides[2]);
    c = parse("{" QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":16,\"layer_types\":["
              "\"full_attention\",\"full_attention\",\"full_attention\"]}");
    assert_int_equal(c.window, 0);
    const char *mistral = "{\"architectures\":[\"MistralForCausalLM\"],\"vocab_size\":9,"
                          "\"hidden_size\":8,\"intermediate_size\":8,\"num_hidden_layers\":2,"
                          "\"num_attention_heads\":2,\"num_key_value_heads\":1,"
                          "\"max_position_embeddings\":99%s}";
    static const struct {
        const char *more;
        int window;
    } row[] = {{"", 4096}, {",\"sliding_window\":null", 0}, {",\"sliding_window\":7", 7}};
    for (size_t i = 0; i < 3; i++) {
        char text[400];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, mistral, row[i].more);
#pragma GCC diagnostic pop
        c = parse(text);
        assert_int_equal(c.family, FAMILY_MISTRAL);
        assert_int_equal(c.window, row[i].window);
        assert_true(c.slides[0] == (row[i].window > 0) && c.slides[1] == c.slides[0]);
    }
    c = parse("{\"architectures\":[\"MinistralForCausalLM\"],\"vocab_size\":9,\"hidden_size\":8,"
              "\"intermediate_size\":8,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
              "\"num_key_value_heads\":1,\"max_position_embeddings\":99,\"sliding_window\":5,"
              "\"layer_types\":[\"full_attention\",\"sliding_attention\"]}");
    assert_int_equal(c.family, FAMILY_MINISTRAL);
    assert_true(c.window == 5 && !c.slides[0] && c.slides[1]);
}

/* Fault: Qwen3's head is taken for hidden_size over heads, or its norms are left out. */
static void test_qwen3(void **state)
{
    (void)state;
    const char *text = "{\"architectures\":[\"Qwen3ForCausalLM\"],\"vocab_size\":9,"
                       "\"hidden_size\":8,\"intermediate_size\":8,\"num_hidden_layers\":2,"
                       "\"num_attention_heads\":2,\"num_key_value_heads\":1,"
                       "\"max_position_embeddings\":99}";
    struct config c = parse(text);
    assert_int_equal(c.family, FAMILY_QWEN3);
    assert_int_equal(c.d_head, 128);
    assert_false(c.has_qkv_bias);
}

/* Fault: a multiplier, a layer without positions, or where a layer norms is passed over. */
static void test_later_families(void **state)
{
    (void)state;
    struct config c = parse("{" GRANITE ",\"embedding_multiplier\":12,\"residual_multiplier\":0.5,"
                            "\"attention_multiplier\":0.0625,\"logits_scaling\":8}");
    assert_int_equal(c.family, FAMILY_GRANITE);
    assert_true(c.embed_scale == 12 && c.residual_scale == 0.5 && c.attn_scale == 0.0625);
    assert_true(c.logit_scale == 0.125 && c.norms == NORMS_INPUT && c.n_kv_head == 4);
    c = parse("{" GRANITE "}");
    assert_true(c.embed_scale == 1 && c.attn_scale == 1 && c.logit_scale == 1);
    c = parse("{" SMOLLM3 "}");
    assert_true(c.family == FAMILY_SMOLLM3 && c.is_tied && c.rope.theta == 2e6 && !c.window);
    assert_true(!c.is_unturned[0] && !c.is_unturned[2] && c.is_unturned[3] && !c.is_unturned[4]);
    c = parse("{" SMOLLM3 ",\"no_rope_layers\":[0,1,1,1,0],\"use_sliding_window\":true,"
              "\"sliding_window\":7}");
    assert_true(c.is_unturned[0] && !c.is_unturned[3] && c.is_unturned[4]);
    assert_true(c.window == 7 && c.slides[0] && !c.slides[3] && c.slides[4]);
    c = parse("{\"architectures\":[\"Olmo2ForCausalLM\"]," SIZES "}");
    assert_int_equal(c.family, FAMILY_OLMO2);
    assert_true(c.norms == NORMS_OUTPUT && c.qk_norm == QK_NORM_WHOLE && c.norm_eps == 1e-5);
    c = parse("{\"architectures\":[\"Olmo3ForCausalLM\"]," SIZES ",\"rope_theta\":1e4,"
              "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8}}");
    assert_true(c.family == FAMILY_OLMO3 && c.norms == NORMS_OUTPUT && c.window == 4096);
    assert_true(c.slides[0] && c.slides[2] && !c.slides[3] && c.slides[4]);
    assert_true(c.rope.kind == ROPE_YARN && c.rope.theta == 1e4 && c.local_theta == 5e5);
    c = parse(MINISTRAL3 ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":3e4,"
                         "\"llama_4_scaling_beta\":0.2,\"original_max_position_embeddings\":20}}");
    assert_true(c.query_growth == 0.2 && c.rope.original_max_pos == 20 && c.rope.theta == 3e4);
    assert_true(c.family == FAMILY_MINISTRAL3 && c.d_head == 128 && c.norm_eps == 1e-5);
    assert_true(!c.window);
}

#define MOE "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"num_key_value_heads\":2," SIZES

/* Faults: a default of the classes; a layer that has experts and should not; the width of a plain
 * layer taken for an expert's. */
static void test_experts(void **state)
{
    (void)state;
    struct config c = parse(MOE "}");
    assert_true(c.n_expert == 128 && c.n_top == 8 && c.d_expert == 768 && !c.normalises_top);
    assert_int_equal(c.family, FAMILY_QWEN3_MOE);
    assert_true(c.has_experts[0] && c.has_experts[4] && c.d_ff != 768 && c.balance == 0);
    c = parse(MOE ",\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,"
                  "\"norm_topk_prob\":true,\"decoder_sparse_step\":2,\"mlp_only_layers\":[3],"
                  "\"output_router_logits\":true}");
    assert_true(c.n_expert == 6 && c.n_top == 2 && c.d_expert == 24 && c.normalises_top);
    assert_true(!c.has_experts[0] && c.has_experts[1] && !c.has_experts[3] && c.balance == 0.001);
    c = parse(MOE ",\"num_local_experts\":16}"); /* as transformers 5.24 writes it */
    assert_int_equal(c.n_expert, 16);
    c = parse(MOE ",\"num_experts\":6,\"num_local_experts\":16,\"num_experts_per_tok\":2}");
    assert_int_equal(c.n_expert, 6);
    c = parse("{\"architectures\":[\"MixtralForCausalLM\"],\"num_key_value_heads\":2," SIZES
              ",\"num_local_experts\":4,\"norm_topk_prob\":false}");
    assert_true(c.n_expert == 4 && c.n_top == 2 && c.d_expert == c.d_ff && c.normalises_top);
    assert_true(c.family == FAMILY_MIXTRAL && c.rope.theta == 1e6 && !c.window);
    c = parse("{\"architectures\":[\"OlmoeForCausalLM\"]," SIZES "}");
    assert_true(c.family == FAMILY_OLMOE && c.n_expert == 64 && c.n_top == 8 &&
                c.qk_norm == QK_NORM_WHOLE);
}

/* Faults: a default of the classes with an expert that has all rows, a width that must not be there
 * asked for, windows of layers that have none. */
static void test_shared_experts(void **state)
{
    (void)state;
    struct config c = parse("{\"architectures\":[\"Qwen2MoeForCausalLM\"],"
                            "\"num_key_value_heads\":2," SIZES "}");
    assert_true(c.family == FAMILY_QWEN2_MOE && c.n_expert == 60 && c.n_top == 4);
    assert_true(c.d_expert == 1408 && c.d_shared == 5632 && !c.normalises_top && c.has_qkv_bias);
    assert_true(!c.has_o_bias && !c.window);
    c = parse("{\"architectures\":[\"Qwen2MoeForCausalLM\"],\"num_key_value_heads\":2," SIZES
              ",\"qkv_bias\":false,\"use_sliding_window\":true,\"sliding_window\":7,"
              "\"max_window_layers\":3,\"shared_expert_intermediate_size\":12}");
    assert_true(c.d_shared == 12 && !c.has_qkv_bias && c.window == 7);
    assert_true(c.slides[0] && !c.slides[1] && c.slides[2] && !c.slides[3] && !c.slides[4]);
    c = parse("{\"architectures\":[\"Qwen3NextForCausalLM\"],\"num_key_value_heads\":2," SIZES "}");
    assert_true(c.family == FAMILY_QWEN3_NEXT && c.n_expert == 512 && c.n_top == 10 &&
                c.d_expert == 512 && c.d_shared == 512);
    assert_true(c.normalises_top && c.is_delta_joined && c.rope.partial == 0.25);
    c = parse("{\"architectures\":[\"Qwen3NextForCausalLM\"],\"num_key_value_heads\":2," SIZES
              ",\"norm_topk_prob\":false,\"mlp_only_layers\":[0]}");
    assert_true(!c.normalises_top && !c.has_experts[0] && c.has_experts[1]);
    c = parse("{\"architectures\":[\"Qwen3_5MoeForConditionalGeneration\"],\"text_config\":"
              "{\"model_type\":\"qwen3_5_moe_text\"}}");
    assert_true(c.family == FAMILY_QWEN3_5_MOE && c.n_expert == 256 && c.n_top == 8 &&
                c.d_expert == 512 && c.d_shared == 512);
    assert_true(c.normalises_top && !c.is_delta_joined && c.is_wrapped && c.d_model == 2048);
}

#define DEEPSEEK(v) "{\"architectures\":[\"DeepseekV" v "ForCausalLM\"]," SIZES

/* Faults: a default of either class; groups that rule where they should not; a scale of scores that
 * yarn's context does not move. */
static void test_deepseek(void **state)
{
    (void)state;
    struct config c = parse(DEEPSEEK("2") ",\"num_experts_per_tok\":6,\"n_group\":8,"
                                          "\"topk_group\":3}");
    assert_int_equal(c.family, FAMILY_DEEPSEEK_V2);
    assert_true(c.d_latent == 512 && c.d_latent_q == 1536 && c.d_head == 192 && c.d_value == 128);
    assert_true(c.d_turned == 64 && c.turns_beside && c.n_kv_head == c.n_head);
    assert_true(c.n_expert == 64 && c.n_top == 6 && c.d_expert == 1407 && c.d_shared == 2 * 1407);
    assert_true(!c.is_sigmoid_route && !c.has_route_bias && !c.normalises_top && c.n_group == 0);
    assert_true(c.has_experts[0] && c.route_scale == 1 && c.attn_scale == 1 / sqrt(192));
    c = parse(DEEPSEEK("2") ",\"num_experts_per_tok\":6,\"q_lora_rank\":null,\"n_group\":8,"
                            "\"topk_group\":3,\"topk_method\":\"group_limited_greedy\","
                            "\"routed_scaling_factor\":16,\"first_k_dense_replace\":1}");
    assert_true(c.d_latent_q == 0 && c.n_group == 8 && c.n_top_group == 3 && c.route_best == 1);
    assert_true(c.route_scale == 16 && !c.has_experts[0] && c.has_experts[1]);
    c = parse(DEEPSEEK("3") ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":1,"
                            "\"mscale_all_dim\":1,\"original_max_position_embeddings\":4096}}");
    assert_int_equal(c.family, FAMILY_DEEPSEEK_V3);
    double m = 0.1 * log(40) + 1;
    assert_true(fabs(c.attn_scale - m * m / sqrt(192)) < 1e-12 && c.rope.factor == 40);
    assert_true(c.n_expert == 256 && c.n_top == 8 && c.d_expert == 2048 && c.d_shared == 2048);
    assert_true(c.is_sigmoid_route && c.has_route_bias && c.normalises_top && c.route_best == 2);
    assert_true(c.n_group == 8 && c.n_top_group == 4 && c.route_scale == 2.5);
    assert_true(!c.has_experts[2] && c.has_experts[3]);
    c = parse(DEEPSEEK("3") ",\"rope_interleave\":false,\"n_shared_experts\":null,"
                            "\"n_group\":1,\"topk_group\":1,\"norm_topk_prob\":false}");
    assert_true(!c.turns_beside && c.d_shared == 0 && c.n_group == 1 && !c.normalises_top);
}

#define MISTRAL4 "{\"architectures\":[\"Mistral4ForCausalLM\"]," SIZES
#define GROWING                                                                                      \
    ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":128,\"mscale_all_dim\":1,\"mscale\":1," \
    "\"original_max_position_embeddings\":8192,\"partial_rotary_factor\":0.5"

/* Faults: a default of its class; queries that do not grow, or those of others that do. */
static void test_mistral4(void **state)
{
    (void)state;
    struct config c = parse(MISTRAL4 GROWING ",\"llama_4_scaling_beta\":0.1}}");
    assert_int_equal(c.family, FAMILY_MISTRAL4);
    assert_true(c.d_latent == 256 && c.d_latent_q == 1024 && c.d_head == 128 && c.d_turned == 64);
    assert_true(c.n_expert == 128 && c.n_top == 4 && c.normalises_top && !c.is_sigmoid_route);
    assert_true(c.route_best == 2 && !c.has_route_bias && c.query_growth == 0.1);
    assert_true(c.d_shared == 2048 && c.has_experts[0] && c.route_scale == 1);
}

#define TURNED ",\"rope_parameters\":{\"rope_type\":\"default\"}"

/* Faults: a default of gpt-oss' class, a bound of its gates that is not read. */
static void test_gpt_oss(void **state)
{
    (void)state;
    struct config c =
        parse("{\"architectures\":[\"GptOssForCausalLM\"],\"num_key_value_heads\":2," SIZES TURNED
              ",\"num_local_experts\":6,\"quantization_config\":{\"quant_method\":\"mxfp4\","
              "\"modules_to_not_convert\":[\"lm_head\"]}}");
    assert_true(c.family == FAMILY_GPT_OSS && c.n_expert == 6 && c.n_top == 4 && c.normalises_top);
    assert_true(c.has_sinks && c.has_expert_bias && c.swiglu_limit == 7 && c.swiglu_alpha == 1.702);
    assert_true(c.has_qkv_bias && c.has_o_bias && c.d_head == 64 && c.rope.theta == 150000);
    assert_true(c.window == 128 && c.slides[0] && !c.slides[1] && c.slides[2]);
    assert_int_equal(c.packing.method, PACKING_MXFP4);
    c = parse("{\"architectures\":[\"GptOssForCausalLM\"],\"num_key_value_heads\":2," SIZES TURNED
              ",\"swiglu_limit\":3.5,\"swiglu_alpha\":2,\"attention_bias\":false}");
    assert_true(c.swiglu_limit == 3.5 && c.swiglu_alpha == 2 && !c.has_qkv_bias && !c.has_o_bias);
}

/* Faults: a default of Gemma's classes; a bound, a pattern or a second theta that is not read. */
static void test_gemma(void **state)
{
    (void)state;
    struct config c = parse("{" GEMMA2 "}");
    assert_int_equal(c.family, FAMILY_GEMMA2);
    assert_true(c.is_tied && c.norm_plus_one && c.norms == NORMS_BOTH && c.d_head == 256);
    assert_true(c.act == ACT_GELU_TANH && c.is_gated && c.attn_scale == 1.0 / 16);
    assert_true(c.attn_cap == 50 && c.logit_cap == 30 && c.embed_scale == 4 && !c.local_theta);
    assert_true(c.window == 4096 && c.slides[0] && !c.slides[1] && c.slides[4]);
    c = parse("{" GEMMA2 ",\"attn_logit_softcapping\":null,\"final_logit_softcapping\":7,"
              "\"query_pre_attn_scalar\":4,\"hidden_activation\":\"gelu\"}");
    assert_true(c.attn_cap == 0 && c.logit_cap == 7 && c.attn_scale == 0.5 && c.act == ACT_GELU);
    c = parse("{" GEMMA3 ",\"sliding_window_pattern\":3,\"rope_local_base_freq\":500}");
    assert_int_equal(c.family, FAMILY_GEMMA3);
    assert_true(c.qk_norm == QK_NORM_HEADS && c.logit_cap == 0 && c.local_theta == 500);
    assert_true(c.slides[1] && !c.slides[2] && c.slides[4] && c.rope.theta == 1e6);
    c = parse("{" GEMMA3
              ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,"
              "\"rope_theta\":5e5},\"sliding_attention\":{\"rope_type\":\"default\","
              "\"rope_theta\":700}},\"torch_dtype\":\"bfloat16\"}");
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.theta == 5e5 && c.rope.factor == 8);
    assert_true(c.local_theta == 700 && c.embed_scale == 4 && c.slides[4]);
}

/* Faults: a model of vectors that is taken for one of text; a window seen to one side, or as wide
 * to each side as it is in all. */
static void test_bodies(void **state)
{
    (void)state;
    struct config c = parse("{" GEMMA3_BODY ",\"use_bidirectional_attention\":true,"
                            "\"sliding_window\":512}");
    assert_int_equal(c.family, FAMILY_GEMMA3);
    assert_true(c.is_encoder && c.sees_ahead && c.window == 257 && c.slides[0]);
    c = parse("{" GEMMA3_BODY ",\"use_bidirectional_attention\":false}");
    assert_true(c.is_encoder && !c.sees_ahead && c.window == 4096);
}

/* Faults: a default of Phi-3's class; half a head that turns whole; a scaling by its old name. */
static void test_phi3(void **state)
{
    (void)state;
    struct config c = parse("{" PHI3 "}");
    assert_int_equal(c.family, FAMILY_PHI3);
    assert_true(c.is_joined && !c.has_qkv_bias && !c.is_tied && c.norm_eps == 1e-5);
    assert_true(c.n_kv_head == 4 && !c.window && !c.slides[0] && c.rope.partial == 1);
    c = parse("{" PHI3 ",\"sliding_window\":7,\"partial_rotary_factor\":0.5,"
              "\"original_max_position_embeddings\":33,\"rope_scaling\":{\"type\":\"su\","
              "\"short_factor\":[2],\"long_factor\":[3]}}");
    assert_true(c.window == 7 && c.slides[0] && c.slides[4] && c.rope.partial == 0.5);
    assert_true(c.rope.kind == ROPE_LONGROPE && c.rope.n_factor == 1 && c.rope.factor == 3);
}

/* Faults: the text part's fields are looked for outside of it, or its class's sizes are missing. */
static void test_text_config(void **state)
{
    (void)state;
    struct config c = parse(VISION("Gemma3", "{\"model_type\":\"gemma3_text\",\"hidden_size\":30,"
                                             "\"eos_token_id\":9,\"sliding_window\":64}"));
    assert_true(c.family == FAMILY_GEMMA3 && c.is_wrapped && c.is_tied && c.is_bf16);
    assert_string_equal(c.architecture, "Gemma3ForConditionalGeneration");
    assert_true(c.d_model == 30 && c.d_ff == 9216 && c.n_layer == 26 && c.n_vocab == 262208);
    assert_true(c.n_head == 8 && c.n_kv_head == 4 && c.d_head == 256 && c.max_pos == 131072);
    assert_true(c.n_eos == 2 && c.eos[1] == 6 && c.embed_scale == 5.46875); /* sqrt(30) in bf16 */
    assert_true(c.window == 64 && c.slides[0] && !c.slides[5]);
    c = parse(VISION("Llava", "{\"vocab_size\":32064}"));
    assert_true(c.family == FAMILY_LLAMA && c.n_vocab == 32064 && c.d_ff == 11008);
    assert_true(c.n_kv_head == 32 && c.max_pos == 2048 && !c.is_tied);
    c = parse(VISION("Mistral3", "{\"model_type\":\"mistral\",\"head_dim\":128}"));
    assert_true(c.family == FAMILY_MISTRAL && c.n_kv_head == 8 && c.max_pos == 131072);
}

/* Faults: the names that LFM2's files had first are not known, or the common ones rule over them; a
 * feed-forward of the width that is told. */
static void test_short_convolutions(void **state)
{
    (void)state;
    struct config c = parse("{" LFM2 ",\"block_ff_dim\":12288,"
                            "\"block_auto_adjust_ff_dim\":true,\"block_ffn_dim_multiplier\":1.0,"
                            "\"block_multiple_of\":256,\"conv_L_cache\":3,\"conv_bias\":false,"
                            "\"full_attn_idxs\":[2,4],\"norm_eps\":1e-06,\"theta\":5000}");
    assert_true(c.family == FAMILY_LFM2 && c.d_ff == 8192 && c.n_tap == 3 && !c.has_conv_bias);
    assert_true(c.mixer[0] && c.mixer[1] && !c.mixer[2] && c.mixer[3] == MIXER_CONV && !c.mixer[4]);
    assert_true(c.norm_eps == 1e-6 && c.rope.theta == 5000 && c.is_tied);
    assert_int_equal(c.qk_norm, QK_NORM_HEADS);
    c = parse("{" LFM2 ",\"block_auto_adjust_ff_dim\":false,\"layer_types\":[\"full_attention\","
              "\"conv\",\"conv\",\"conv\",\"conv\"],\"full_attn_idxs\":[1],\"conv_bias\":true,"
              "\"tie_embedding\":false,\"tie_word_embeddings\":true,\"conv_L_cache\":4}");
    assert_true(c.d_ff == 8 && c.n_tap == 4 && c.has_conv_bias && !c.is_tied);
    assert_true(!c.mixer[0] && c.mixer[1] == MIXER_CONV && c.rope.theta == 1e6 &&
                c.norm_eps == 1e-5);
    c = parse("{" LFM2 ",\"block_ffn_dim_multiplier\":null}");
    assert_true(c.d_ff == 5 && !c.mixer[0] && !c.mixer[4]); /* 2/3 of 8; all attend */
    c = parse("{" LFM2 ",\"block_ffn_dim_multiplier\":1.5,\"block_multiple_of\":4}");
    assert_int_equal(c.d_ff, 8); /* 7, in fours */
}

/* Fault: GPT-2's names or BERT's defaults are not known. */
static void test_gpt2_and_bert(void **state)
{
    (void)state;
    struct config c = parse("{" GPT2 ",\"n_inner\":null}");
    assert_int_equal(c.family, FAMILY_GPT2);
    assert_int_equal(c.d_ff, 192);
    assert_int_equal(c.d_head, 8);
    assert_int_equal(c.max_pos, 64);
    assert_true(c.norm_eps == 1e-5 && c.act == ACT_GELU_TANH);
    assert_true(c.is_tied && c.has_qkv_bias && c.scales_attn && !c.scales_attn_by_layer);
    c = parse("{" GPT2 ",\"tie_word_embeddings\":false,\"n_inner\":50,"
              "\"activation_function\":\"gelu\",\"scale_attn_weights\":false}");
    assert_true(!c.is_tied && c.d_ff == 50 && c.act == ACT_GELU && !c.scales_attn);
    c = parse("{" ROBERTA ",\"type_vocab_size\":1}");
    assert_true(c.family == FAMILY_XLM_ROBERTA && c.n_segment == 1 && c.sees_ahead);
    assert_true(c.pos_from == 2 && c.max_pos == 62); /* 64 rows behind padding's, 1 */
    c = parse("{\"model_type\":\"roberta\"," SIZES ",\"pad_token_id\":0}");
    assert_true(c.family == FAMILY_ROBERTA && c.pos_from == 1 && c.max_pos == 98);
    c = parse("{" BERT "}");
    assert_int_equal(c.family, FAMILY_BERT);
    assert_true(c.n_segment == 2 && c.norm_eps == 1e-12 && c.act == ACT_GELU);
    assert_false(c.is_tied);
}

static const struct refused {
    const char *text, *why;
} refused[] = {
    {"{}", "neither architectures nor model_type is there"},
    {"[]", "config.json: expected an object, found an array"},
    {"{\"architectures\":[\"GemmaForCausalLM\"]}",
     "config.json: architectures[0]: 'GemmaForCausalLM' is not supported; the nearest is "
     "Gemma2ForCausalLM; known are llama, mistral, ministral, ministral3, qwen2, qwen3, "
     "qwen3_moe, qwen2_moe, mixtral, "},
    {"{\"architectures\":[\"Qwen4ForCausalLM\"]}", "the nearest is Qwen2ForCausalLM; known are "},
    {"{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"num_key_value_heads\":2," SIZES
     ",\"shared_expert_intermediate_size\":8}",
     "shared_expert_intermediate_size: 8 is not supported; 0 is"},
    {"{\"model_type\":\"mamba\"}",
     "model_type: 'mamba' is not supported; known are llama, mistral, ministral, ministral3, qwen2, qwen3, "
     "qwen3_moe, qwen2_moe, mixtral, gpt_oss, olmoe, olmo2, olmo3, smollm3, granite, gemma2, gemma3_text, gemma3n_text, gemma4_text, phi3, lfm2, "
     "qwen3_5_text, granitemoehybrid, qwen3_5_moe_text, qwen3_next, deepseek_v2, deepseek_v3, mistral4, gpt2, bert, roberta, xlm-roberta, modernbert and nomic_bert"},
    {DEEPSEEK("2") "}", "num_experts_per_tok is missing"},
    {DEEPSEEK("3") GROWING ",\"llama_4_scaling_beta\":0.1}}", "partial_rotary_factor: 0.5 is not"},
    {MISTRAL4 "}", "rope_parameters is missing"},
    {MINISTRAL3 "}", "rope_parameters is missing"},
    {"{" LLAMA ",\"rope_scaling\":{\"llama_4_scaling_beta\":0.1}}",
     "rope_scaling.llama_4_scaling_beta: is not supported here"},
    {MISTRAL4 GROWING "}}", "llama_4_scaling_beta is missing"},
    {MISTRAL4 ",\"qk_rope_head_dim\":32,\"v_head_dim\":64" GROWING
              ",\"llama_4_scaling_beta\":0.1}}",
     "partial_rotary_factor: 0.5 of 96 numbers are not qk_rope_head_dim, 32"},
    {DEEPSEEK("2") ",\"num_experts_per_tok\":6,\"topk_method\":\"noaux_tc\"}",
     "topk_method: 'noaux_tc' is not supported; greedy and group_limited_greedy are"},
    {DEEPSEEK("2") ",\"num_experts_per_tok\":6,\"topk_method\":\"group_limited_greedy\"}",
     "topk_method: group_limited_greedy without n_group or topk_group"},
    {DEEPSEEK("2") ",\"num_experts_per_tok\":6,\"norm_topk_prob\":true}",
     "norm_topk_prob: true is not supported; false is"},
    {DEEPSEEK("2") ",\"num_experts_per_tok\":6,\"mlp_bias\":true}",
     "mlp_bias: true is not supported; false is"},
    {DEEPSEEK("3") ",\"scoring_func\":\"softmax\"}",
     "scoring_func: 'softmax' is not supported; sigmoid is"},
    {DEEPSEEK("3") ",\"topk_method\":\"greedy\"}",
     "topk_method: 'greedy' is not supported; noaux_tc is"},
    {DEEPSEEK("3") ",\"n_group\":7}", "n_group: 7 groups of 256 experts are not supported"},
    {DEEPSEEK("3") ",\"topk_group\":9}", "topk_group: 9 groups for a token, of 8"},
    {DEEPSEEK("3") ",\"num_experts_per_tok\":40,\"topk_group\":1}",
     "num_experts_per_tok: 40 experts for a token, of 1 groups of 32"},
    {DEEPSEEK("3") ",\"num_key_value_heads\":1}", "num_key_value_heads: 1 is not supported"},
    {DEEPSEEK("3") ",\"v_head_dim\":200}", "v_head_dim: values of 200 numbers are not supported"},
    {DEEPSEEK("3") ",\"qk_nope_head_dim\":127}", "qk_nope_head_dim: 127 is not supported; even"},
    {DEEPSEEK("3") ",\"qk_nope_head_dim\":500}",
     "qk_nope_head_dim: heads of 564 numbers are not supported; up to 512 are"},
    {DEEPSEEK("3") ",\"moe_layer_freq\":2}", "moe_layer_freq: 2 is not supported; 1 is"},
    {DEEPSEEK("3") ",\"index_topk\":2048}", "index_topk: 2048 is not supported; 0 is"},
    {DEEPSEEK("3") ",\"routed_scaling_factor\":0}", "routed_scaling_factor: expected a number"},
    {DEEPSEEK("3") ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
     "rope_type: 'linear' is not supported here; default and yarn are"},
    {"{\"architectures\":[\"Qwen2_5_VLForConditionalGeneration\"],\"text_config\":{}}",
     "text_config: vocab_size is missing"},
    {"{\"architectures\":[\"Gemma3ForConditionalGeneration\"]}", "text_config is missing"},
    {VISION("Llava", "{\"model_type\":\"opt\"}"),
     "config.json: text_config.model_type: 'opt' is not supported; known are llama, mistral"},
    {VISION("Gemma3", "{\"attn_logit_softcapping\":50}"),
     "config.json: text_config.attn_logit_softcapping: 50 is not supported"},
    {"{\"architectures\":[3]}", "architectures[0]: expected a string"},
    {"{" LLAMA ",\"num_kv_shared_layers\":2}", "num_kv_shared_layers: 2 is not supported; 0 is"},
    {"{" LLAMA ",\"hidden_act\":\"relu6\"}",
     "config.json: hidden_act: 'relu6' is not supported; silu is"},
    {"{" LLAMA ",\"hidden_act\":\"gelu\"}", "hidden_act: 'gelu' is not supported; silu is"},
    {"{" GPT2 ",\"activation_function\":\"relu\"}",
     "activation_function: 'relu' is not supported; gelu, gelu_new, gelu_fast, "
     "gelu_pytorch_tanh are"},
    {"{" QWEN2 ",\"sliding_window\":8,\"layer_types\":["
     "\"sliding_attention\",\"full_attention\",\"full_attention\"]}",
     "layer_types[0]: sliding_attention without a sliding_window"},
    {"{\"architectures\":[\"GptOssForCausalLM\"],\"num_key_value_heads\":2," SIZES
     ",\"swiglu_limit\":0}",
     "swiglu_limit: expected a number from 1e-6 to 1e6, found 0"},
    {"{" LLAMA ",\"swiglu_limit\":7}", "swiglu_limit: 7 is not supported; 0 is"},
    {"{" LLAMA ",\"quantization_config\":{\"bits\":4}}", "quantization_config: is not"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"hqq\"}}",
     "quantization_config.quant_method: 'hqq' is not supported; compressed-tensors, fp8, gptq, "},
    {"{" LLAMA
     ",\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}}",
     "quantization_config.load_in_8bit: true is not supported; load_in_4bit is"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}}",
     "quantization_config: is not supported without load_in_4bit"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,"
     "\"bnb_4bit_quant_type\":\"fp4\"}}",
     "quantization_config.bnb_4bit_quant_type: 'fp4' is not supported; nf4 is"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}}",
     "quantization_config.bits: 3 is not supported; 4 and 8 are"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"group_size\":0}}",
     "quantization_config.group_size: expected -1, or inputs"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\","
     "\"checkpoint_format\":\"marlin\"}}",
     "checkpoint_format: 'marlin' is not supported; gptq and gptq_v2 are"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"awq\",\"version\":\"gemv\"}}",
     "quantization_config.version: 'gemv' is not supported; gemm is"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
     "\"config_groups\":{\"group_0\":{\"input_activations\":{\"num_bits\":8}}}}}",
     "config_groups.group_0.input_activations: is not supported; null is"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
     "\"config_groups\":{\"group_0\":{\"weights\":{\"type\":\"float\"}}}}}",
     "weights.type: 'float' is not supported; int is"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
     "\"format\":\"nvfp4-pack-quantized\"}}",
     "quantization_config.format: 'nvfp4-pack-quantized' is not supported; pack-quantized, int-"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}}",
     "quantization_config.fmt: 'e5m2' is not supported; e4m3 is"},
    {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}}",
     "weight_block_size: expected outputs and inputs that share a scale"},
    {"{" LLAMA ",\"final_logit_softcapping\":30.0}",
     "final_logit_softcapping: 30 is not supported; 0 is"},
    {"{" LLAMA ",\"residual_multiplier\":0.2}", "residual_multiplier: 0.2 is not supported"},
    {"{" LLAMA ",\"no_rope_layers\":[1]}", "no_rope_layers: is not supported with this value"},
    {"{" SMOLLM3 ",\"no_rope_layers\":[1]}", "no_rope_layers: expected one for each of 5"},
    {"{" GEMMA2 ",\"hidden_activation\":\"silu\"}", "hidden_activation: 'silu' is not supported"},
    {"{" GEMMA2 ",\"query_pre_attn_scalar\":0}", "query_pre_attn_scalar: expected a number above"},
    {"{" GEMMA2 ",\"final_logit_softcapping\":-1}", "softcapping: expected a number above 0"},
    {"{" GEMMA2 ",\"rope_local_base_freq\":100}", "rope_local_base_freq: 100 is not supported"},
    {"{" GEMMA3 ",\"attn_logit_softcapping\":50}", "attn_logit_softcapping: 50 is not supported"},
    {"{" GEMMA3 ",\"use_bidirectional_attention\":true}",
     "use_bidirectional_attention: true is not"},
    {"{" GEMMA3 ",\"rope_parameters\":{\"full_attention\":{},\"sliding_attention\":{\"rope_type\":"
     "\"linear\"}}}",
     "'linear' is not supported in layers that slide"},
    {"{" GRANITE ",\"logits_scaling\":0}", "logits_scaling: expected a number other than 0"},
    {"{" LLAMA ",\"num_local_experts\":8}", "num_local_experts: 8 is not supported"},
    {"{" LLAMA ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor: 0.5"},
    {"{" PHI3 ",\"partial_rotary_factor\":1.5}", "above 0 and up to 1, found 1.5"},
    {"{" PHI3 ",\"partial_rotary_factor\":0.3}", "0.3 turns 1 numbers of a head"},
    {"{" PHI3 ",\"lm_head_bias\":true}", "lm_head_bias: is not supported"},
    {"{" LFM2 ",\"conv_L_cache\":9}", "conv_L_cache: expected a number from 1 to 8, found 9"},
    {"{" LFM2 ",\"layer_types\":[\"conv\",\"sliding_attention\",\"conv\",\"conv\",\"conv\"]}",
     "layer_types[1]: 'sliding_attention' is not supported; full_attention and conv are"},
    {"{" LFM2 ",\"full_attn_idxs\":[5]}", "full_attn_idxs[0]: expected a number from 0 to 4"},
    {"{" LFM2 ",\"block_ffn_dim_multiplier\":-1}", "a feed-forward of -5 numbers; 1 to 1048576"},
    {"{" LFM2 ",\"theta\":0}", "theta: expected a number above 0, found 0"},
    {"{" LLAMA ",\"conv_L_cache\":3}", "conv_L_cache: 3 is not supported; 0 is"},
    {"{" QWEN3_5 ",\"linear_num_value_heads\":24}", "24 heads of values cannot share 16 of keys"},
    {"{" QWEN3_5 ",\"linear_key_head_dim\":512}", "linear_key_head_dim: expected a number from 1"},
    {"{" QWEN3_5 ",\"attn_output_gate\":false}", "attn_output_gate: false is not supported"},
    {"{" QWEN3_5 ",\"layer_types\":[\"conv\",\"conv\",\"conv\",\"conv\",\"conv\"]}",
     "'conv' is not supported; full_attention and linear_attention are"},
    {"{" GRANITE_4 ",\"mamba_n_groups\":3}", "mamba_n_groups: 3 groups share no"},
    {"{" GRANITE_4 ",\"mamba_d_head\":9}", "mamba_n_heads: 4 heads of 9 are not mamba_expand, 2"},
    {"{" GRANITE_4 ",\"mamba_d_head\":\"16\"}",
     "mamba_d_head: expected a number or auto, found '16'"},
    {"{" GRANITE_4 ",\"mamba_d_head\":300}",
     "mamba_d_head: heads of 300 numbers are not supported"},
    {"{" GRANITE_4 ",\"mamba_d_state\":300}", "mamba_d_state: expected a number from 1 to 256"},
    {"{" GRANITE_4 ",\"mamba_d_conv\":9}", "mamba_d_conv: expected a number from 1 to 8, found 9"},
    {"{" GRANITE_4 ",\"time_step_limit\":[1]}", "time_step_limit: expected two numbers, found 1"},
    {"{" GRANITE_4 ",\"time_step_limit\":[2,1]}", "time_step_limit: expected a number from 0 up"},
    {"{" GRANITE_4 ",\"time_step_limit\":[0,{\"__float__\":\"NaN\"}]}",
     "time_step_limit[1]: expected a number, or Infinity as its __float__"},
    {"{" GRANITE_4 ",\"position_embedding_type\":\"alibi\"}",
     "position_embedding_type: 'alibi' is not supported; nope and rope are"},
    {"{" GRANITE_4 ",\"layers_block_type\":[\"mamba\"]}", "expected one for each of 5 layers"},
    {"{" GRANITE_4 ",\"num_experts_per_tok\":9}", "9 experts for a token, of 8"},
    {"{" LLAMA ",\"mamba_n_heads\":3}", "mamba_n_heads: 3 is not supported; 0 is"},
    {"{" GRANITE ",\"shared_intermediate_size\":3}",
     "shared_intermediate_size: 3 is not supported"},
    {"{" LLAMA ",\"linear_num_value_heads\":3}", "linear_num_value_heads: 3 is not supported"},
    {"{" QWEN2 ",\"layer_types\":[\"conv\",\"conv\",\"conv\"]}", "layer_types[0]: 'conv' is not"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"mrope\"}}",
     "config.json: rope_scaling.type: 'mrope' is not supported; default, linear, dynamic, "
     "llama3, yarn and longrope are"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", "rope_scaling: factor is missing"},
    {"{\"architectures\":[\"GptOssForCausalLM\"],\"num_key_value_heads\":2," SIZES "}",
     "rope_parameters is missing"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"8\"}}",
     "config.json: rope_scaling.factor: expected a number, found a string"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}",
     "rope_scaling.factor: expected a number above 0, found 0"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"factor\":2,\"short_factor\":[1,1],"
     "\"long_factor\":[1,1,1,1]}}",
     "rope_scaling.short_factor: expected 4 factors, found 2"},
    {"{" LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":9}}",
     "high_freq_factor must be above low_freq_factor"},
    {"{" LLAMA ",\"rope_theta\":-1}", "rope_theta: expected a number above 0, found -1"},
    {"{" LLAMA ",\"head_dim\":7}", "head_dim: 7 is not supported with rotary positions"},
    {"{" LLAMA ",\"head_dim\":520}", "head_dim: expected a number from 1 to 512, found 520"},
    {"{\"model_type\":\"gpt2\",\"vocab_size\":9,\"n_embd\":600,\"n_layer\":1,\"n_head\":1,"
     "\"n_positions\":9}",
     "n_embd: heads of 600 numbers are not supported; 2 to 512 are"},
    {"{\"model_type\":\"gpt2\",\"vocab_size\":9,\"n_embd\":3,\"n_layer\":1,\"n_head\":3,"
     "\"n_positions\":9}",
     "n_embd: heads of 1 numbers are not supported"},
    {"{" LLAMA ",\"num_key_value_heads\":4}", "num_key_value_heads: 6 heads cannot share 4"},
    {"{" LLAMA ",\"num_key_value_heads\":0}", "expected a number from 1 to 6, found 0"},
    {"{" LLAMA ",\"rms_norm_eps\":2}", "rms_norm_eps: expected a number from 0 to 1"},
    {"{" LLAMA ",\"eos_token_id\":[1,-2]}", "eos_token_id[1]: expected a number from 0"},
    {"{" QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":8,\"layer_types\":[\"x\","
     "\"full_attention\",\"full_attention\"]}",
     "layer_types[0]: 'x' is not supported"},
    {"{" QWEN2 ",\"layer_types\":[\"full_attention\"]}", "expected one for each of 3 layers"},
    {"{\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":1e9}",
     "vocab_size: expected a number from 1 to 16777216"},
    {"{\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":10}", "hidden_size is missing"},
    {"{\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":10.5}", "whole number"},
    {"{" BERT ",\"position_embedding_type\":\"relative_key\"}",
     "position_embedding_type: 'relative_key' is not supported; absolute is"},
    {"{" ROBERTA ",\"pad_token_id\":63}", "64 rows leave none behind pad_token_id, 63"},
    {"{" BERT ",\"is_decoder\":true}", "is_decoder: true is not supported"},
    {"{\"model_type\":\"gpt2\",\"vocab_size\":9,\"n_embd\":10,\"n_layer\":1,\"n_head\":3,"
     "\"n_positions\":9}",
     "n_embd: 10 cannot be divided among 3 heads"},
};

/* Faults: positions of pictures that a text is refused for; a config of before there was a
 * text_config; another's, whose positions these are not. */
static void test_threefold(void **state)
{
    (void)state;
    struct config c = parse("{\"architectures\":[\"Qwen2_5_VLForConditionalGeneration\"]," SIZES
                            ",\"num_key_value_heads\":2,\"rope_scaling\":{\"type\":\"mrope\","
                            "\"mrope_section\":[1,1,2]},\"vision_config\":{\"depth\":2}}");
    assert_true(c.family == FAMILY_QWEN2 && c.has_qkv_bias && !c.is_wrapped && c.is_threefold);
    assert_int_equal(c.rope.kind, ROPE_DEFAULT);
    c = parse(VISION("Qwen3VL",
                     "{\"model_type\":\"qwen3_vl_text\",\"num_key_value_heads\":2," SIZES
                     ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5e6,"
                     "\"mrope_section\":[24,20,20],\"mrope_interleaved\":true}}"));
    assert_true(c.family == FAMILY_QWEN3 && c.is_wrapped && c.rope.theta == 5e6);
    assert_int_equal(c.qk_norm, QK_NORM_HEADS);
}

/* Faults: heads or layers of delta rules that are not those of the classes; a positions' field of
 * pictures that is refused in a text model; norms, or a share of heads, that others have. */
static void test_delta_rules(void **state)
{
    (void)state;
    struct config c = parse("{" QWEN3_5 ",\"rope_parameters\":{\"rope_type\":\"default\","
                            "\"rope_theta\":1e7,\"mrope_section\":[11,11,10],"
                            "\"mrope_interleaved\":true},\"mamba_ssm_dtype\":\"float32\"}");
    assert_true(c.family == FAMILY_QWEN3_5 && c.d_head == 256 && c.rope.theta == 1e7);
    assert_true(c.rope.partial == 0.25 && c.norm_plus_one && c.has_attn_gate);
    assert_true(c.qk_norm == QK_NORM_HEADS && c.n_tap == 4);
    assert_true(c.mixer[0] == MIXER_DELTA && c.mixer[2] && !c.mixer[3] && c.mixer[4]);
    assert_true(c.n_state_k == 16 && c.n_state_v == 32 && c.d_state_k == 128 && c.d_state_v == 128);
    assert_int_equal(config_conv_width(&c), 8192);
    c = parse("{" QWEN3_5 ",\"full_attention_interval\":2,\"linear_num_key_heads\":2,"
              "\"linear_num_value_heads\":6,\"linear_key_head_dim\":8,"
              "\"linear_value_head_dim\":12,\"linear_conv_kernel_dim\":3,"
              "\"attn_output_gate\":true}");
    assert_true(c.n_tap == 3 && c.mixer[0] && !c.mixer[1] && c.mixer[2] == MIXER_DELTA);
    assert_int_equal(config_conv_width(&c), 2 * 2 * 8 + 6 * 12);
    c = parse("{" QWEN3_5 ",\"layer_types\":[\"full_attention\",\"linear_attention\","
              "\"full_attention\",\"full_attention\",\"linear_attention\"]}");
    assert_true(!c.mixer[0] && c.mixer[1] == MIXER_DELTA && !c.mixer[3] && c.mixer[4]);
}

/* Faults: names of before transformers 5 that are not known, layers or heads that are not those of
 * the class, positions where there are none, experts where the file says none. */
static void test_scans(void **state)
{
    (void)state;
    struct config c =
        parse("{" GRANITE_4 ",\"position_embedding_type\":\"nope\",\"layer_types\":["
              "\"mamba\",\"attention\",\"mamba\",\"linear_attention\","
              "\"full_attention\"],\"attention_multiplier\":0.25,\"mamba_d_state\":6}");
    assert_true(c.family == FAMILY_GRANITE_HYBRID && c.d_ff == 12 && c.d_expert == 8);
    assert_true(c.n_expert == 8 && c.n_top == 2 && c.normalises_top && c.has_stacked_experts);
    assert_true(c.mixer[0] == MIXER_SCAN && !c.mixer[1] && c.mixer[3] == MIXER_SCAN && !c.mixer[4]);
    assert_true(c.n_state_v == 4 && c.d_state_v == 8 && c.n_state_k == 1 && c.d_state_k == 6);
    assert_true(!c.has_rope && c.has_conv_bias && !c.has_scan_bias && c.n_tap == 4);
    assert_true(c.scan_lo == 0 && isinf(c.scan_hi) && c.attn_scale == 0.25);
    c = parse("{" GRANITE_4 ",\"position_embedding_type\":\"rope\",\"num_local_experts\":0,"
              "\"num_experts_per_tok\":0,\"mamba_d_head\":\"auto\",\"mamba_expand\":4,"
              "\"mamba_conv_bias\":false,\"mamba_proj_bias\":true,"
              "\"time_step_limit\":[0.5,{\"__float__\":\"Infinity\"}],"
              "\"layers_block_type\":[\"attention\",\"attention\",\"mamba\",\"mamba\",\"mamba\"]}");
    assert_true(c.has_rope && !c.n_expert && !c.has_experts[0] && c.d_state_v == 16);
    assert_true(!c.has_conv_bias && c.has_scan_bias && c.scan_lo == 0.5 && isinf(c.scan_hi));
    assert_true(!c.mixer[1] && c.mixer[2] == MIXER_SCAN);
    c = parse("{" GRANITE_4 "}");
    assert_true(!c.has_rope && c.mixer[0] == MIXER_SCAN && c.mixer[4] == MIXER_SCAN);
}

/* Fault: a value that would change the arithmetic is passed over in silence. */
static void test_refuses_what_it_cannot_compute(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct config c;
        struct err e = ERR_INIT;
        if (config_parse(&c, refused[i].text, strlen(refused[i].text), "config.json", &e) == 0)
            fail_msg("taken: %s", refused[i].text);
        if (!strstr(e.msg, refused[i].why))
            fail_msg("%s\n  said: %s\n  not: %s", refused[i].text, e.msg, refused[i].why);
    }
}

/* Fault: a neutral value of a foreign field is refused, which would turn good models away. */
static void test_neutral_values_pass(void **state)
{
    (void)state;
    parse("{" LLAMA ",\"final_logit_softcapping\":null,\"num_local_experts\":0,\"logit_scale\":1.0,"
          "\"is_encoder_decoder\":false,\"pretraining_tp\":1,\"attention_dropout\":0.1}");
    parse("{" GPT2 ",\"scale_attn_weights\":true,\"reorder_and_upcast_attn\":false}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_defaults),
        cmocka_unit_test(test_llama_fields),
        cmocka_unit_test(test_rope_parameters),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_later_families),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_shared_experts),
        cmocka_unit_test(test_deepseek),
        cmocka_unit_test(test_mistral4),
        cmocka_unit_test(test_gpt_oss),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_phi3),
        cmocka_unit_test(test_text_config),
        cmocka_unit_test(test_short_convolutions),
        cmocka_unit_test(test_threefold),
        cmocka_unit_test(test_delta_rules),
        cmocka_unit_test(test_scans),
        cmocka_unit_test(test_gpt2_and_bert),
        cmocka_unit_test(test_refuses_what_it_cannot_compute),
        cmocka_unit_test(test_neutral_values_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
