#!/usr/bin/env python3
"""Writes a Hugging Face folder with random BF16 weights of a given shape and, with --gguf, the same weights as a GGUF
file (llama architecture, BF16), so that two servers can be measured on one model. Needs Python's library alone.

    make_random_model.py OUT [--gguf OUT.gguf] [--layers 24 --hidden 1024 …]

The values come from one pool of random numbers, cut at random places, row by row: speed does not depend on them, and a
gigabyte of independent ones would take minutes. Rows of q and k are permuted in the GGUF file, as llama.cpp's rotation of
neighbouring pairs asks for, so both files compute the same function. The tokenizer is byte-level: one token a byte (a
single merge, of two spaces, for readers that insist on one), then fillers up to the vocabulary's size, then special
tokens at its end."""

import argparse
import array
import json
import os
import random
import struct

POOL_VALUES = 1 << 20
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def bfloat16_bytes(values):
    """The upper halves of floats (cut, not rounded)."""
    single = array.array("f", values).tobytes()
    out = bytearray(len(single) // 2)
    out[0::2] = single[2::4]
    out[1::2] = single[3::4]
    return bytes(out)


class weight_source:
    """Rows of random numbers, uniform in ± sqrt(3 / columns), so that a product keeps its input's scale."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pools = {}

    def matrix(self, rows, columns):
        pool = self.pools.get(columns)
        if pool is None:
            spread = (3.0 / columns) ** 0.5
            count = max(POOL_VALUES, 2 * columns)
            pool = bfloat16_bytes([self.random.uniform(-spread, spread) for _ in range(count)])
            self.pools[columns] = pool
        places = len(pool) // 2 - columns
        starts = (2 * self.random.randrange(places) for _ in range(rows))
        return b"".join(pool[start : start + 2 * columns] for start in starts)


def tensors_of(shape):
    """(Hugging Face name, GGUF name, rows, columns, heads to permute), in the order in which they are written; a norm
    has rows 0."""
    hidden, inner = shape.hidden, shape.inner
    q_rows, kv_rows = shape.query_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "model.embed_tokens.weight", "token_embd.weight", shape.vocabulary, hidden, 0
    for layer in range(shape.layers):
        name, short = f"model.layers.{layer}.", f"blk.{layer}."
        yield name + "input_layernorm.weight", short + "attn_norm.weight", 0, hidden, 0
        yield name + "self_attn.q_proj.weight", short + "attn_q.weight", q_rows, hidden, shape.query_heads
        yield name + "self_attn.k_proj.weight", short + "attn_k.weight", kv_rows, hidden, shape.kv_heads
        yield name + "self_attn.v_proj.weight", short + "attn_v.weight", kv_rows, hidden, 0
        yield name + "self_attn.o_proj.weight", short + "attn_output.weight", hidden, q_rows, 0
        yield name + "post_attention_layernorm.weight", short + "ffn_norm.weight", 0, hidden, 0
        yield name + "mlp.gate_proj.weight", short + "ffn_gate.weight", inner, hidden, 0
        yield name + "mlp.up_proj.weight", short + "ffn_up.weight", inner, hidden, 0
        yield name + "mlp.down_proj.weight", short + "ffn_down.weight", hidden, inner, 0
    yield "model.norm.weight", "output_norm.weight", 0, hidden, 0
    yield "lm_head.weight", "output.weight", shape.vocabulary, hidden, 0


def safetensors_header(shape):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, _, rows, columns, _ in tensors_of(shape):
        size = 2 * max(rows, 1) * columns
        dimensions = [rows, columns] if rows else [columns]
        header[name] = {"dtype": "BF16", "shape": dimensions, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def byte_characters():
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, extra = {}, 256
    for byte in range(256):
        if byte in printable:
            out[byte] = chr(byte)
        else:
            out[byte] = chr(extra)
            extra += 1
    return [out[byte] for byte in range(256)]


def vocabulary_of(shape):
    space = byte_characters()[32]
    tokens = [*byte_characters(), space + space]
    fillers = shape.vocabulary - len(tokens) - len(SPECIAL_TOKENS)
    if fillers < 0:
        raise SystemExit(f"--vocabulary {shape.vocabulary} is below {shape.vocabulary - fillers}")
    return [*tokens, *(f"{space}w{i}" for i in range(fillers)), *SPECIAL_TOKENS]


def write_text_files(shape, folder):
    tokens = vocabulary_of(shape)
    first_special = shape.vocabulary - len(SPECIAL_TOKENS)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": shape.hidden, "intermediate_size": shape.inner, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.query_heads, "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary, "max_position_embeddings": shape.context, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "bos_token_id": first_special, "eos_token_id": [first_special, first_special + 2],
    }  # fmt: skip
    added = [
        {"id": first_special + i, "content": token, "special": True, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False}
        for i, token in enumerate(SPECIAL_TOKENS)
    ]  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens[:first_special])},
            "merges": [f"{tokens[32]} {tokens[32]}"],
        },
    }  # fmt: skip
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL_TOKENS[0], "bos_token": None,
        "add_bos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": shape.context,
        "chat_template": CHAT_TEMPLATE,
    }  # fmt: skip
    for name, content in [("config.json", config), ("tokenizer.json", tokenizer), ("tokenizer_config.json", tokenizer_config)]:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            json.dump(content, out, ensure_ascii=False, indent=None if name == "tokenizer.json" else 1)


GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY = 4, 5, 6, 7, 8, 9
GGML_F32, GGML_BF16, GGUF_FILE_BF16, GGUF_ALIGNMENT = 0, 30, 32, 32
TOKEN_NORMAL, TOKEN_CONTROL = 1, 3


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_field(name, kind, value):
    formats = {GGUF_U32: "<I", GGUF_I32: "<i", GGUF_F32: "<f", GGUF_BOOL: "<?"}
    head = gguf_string(name) + struct.pack("<I", kind)
    return head + (gguf_string(value) if kind == GGUF_STRING else struct.pack(formats[kind], value))


def gguf_array(name, kind, values):
    body = b"".join(gguf_string(v) if kind == GGUF_STRING else struct.pack("<i", v) for v in values)
    return gguf_string(name) + struct.pack("<IIQ", GGUF_ARRAY, kind, len(values)) + body


def gguf_metadata(shape):
    tokens = vocabulary_of(shape)
    first_special = shape.vocabulary - len(SPECIAL_TOKENS)
    types = [TOKEN_NORMAL] * first_special + [TOKEN_CONTROL] * len(SPECIAL_TOKENS)
    u32 = lambda name, value: gguf_field(name, GGUF_U32, value)  # noqa: E731
    return [
        gguf_field("general.architecture", GGUF_STRING, "llama"),
        gguf_field("general.name", GGUF_STRING, "random"),
        u32("general.file_type", GGUF_FILE_BF16),
        u32("general.alignment", GGUF_ALIGNMENT),
        u32("llama.context_length", shape.context),
        u32("llama.embedding_length", shape.hidden),
        u32("llama.block_count", shape.layers),
        u32("llama.feed_forward_length", shape.inner),
        u32("llama.attention.head_count", shape.query_heads),
        u32("llama.attention.head_count_kv", shape.kv_heads),
        u32("llama.attention.key_length", shape.head_dim),
        u32("llama.attention.value_length", shape.head_dim),
        u32("llama.rope.dimension_count", shape.head_dim),
        u32("llama.vocab_size", shape.vocabulary),
        gguf_field("llama.attention.layer_norm_rms_epsilon", GGUF_F32, 1e-5),
        gguf_field("llama.rope.freq_base", GGUF_F32, 10000.0),
        gguf_field("tokenizer.ggml.model", GGUF_STRING, "gpt2"),
        gguf_field("tokenizer.ggml.pre", GGUF_STRING, "gpt-2"),
        gguf_array("tokenizer.ggml.tokens", GGUF_STRING, tokens),
        gguf_array("tokenizer.ggml.token_type", GGUF_I32, types),
        gguf_array("tokenizer.ggml.merges", GGUF_STRING, [f"{tokens[32]} {tokens[32]}"]),
        u32("tokenizer.ggml.bos_token_id", first_special),
        u32("tokenizer.ggml.eos_token_id", first_special),
        gguf_field("tokenizer.ggml.add_bos_token", GGUF_BOOL, False),
        gguf_field("tokenizer.chat_template", GGUF_STRING, CHAT_TEMPLATE),
    ]


def aligned(size):
    return size + -size % GGUF_ALIGNMENT


def gguf_header(shape):
    """Everything before the tensors' data. Norms are F32 there: the peer reads them so."""
    tensors, offset, count = [], 0, 0
    for _, name, rows, columns, _ in tensors_of(shape):
        dimensions = [columns, rows] if rows else [columns]
        kind = GGML_BF16 if rows else GGML_F32
        tensors.append(gguf_string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset))
        offset += aligned(2 * rows * columns if rows else 4 * columns)
        count += 1
    metadata = gguf_metadata(shape)
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(metadata)) + b"".join(metadata) + b"".join(tensors)
    return head + bytes(aligned(len(head)) - len(head))


def permuted(data, heads, columns):
    """Row 2 · j + t of a head is what was row t · half + j: llama.cpp rotates neighbours, Hugging Face halves."""
    width = 2 * columns
    rows = len(data) // width
    half = rows // heads // 2
    order = (head * 2 * half + t * half + j for head in range(heads) for j in range(half) for t in range(2))
    return b"".join(data[row * width : (row + 1) * width] for row in order)


def write_weights(shape, folder, gguf_path):
    source = weight_source(shape.seed)
    parameters = 0
    gguf = open(gguf_path, "wb") if gguf_path else None
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(safetensors_header(shape))
        if gguf:
            gguf.write(gguf_header(shape))
        for _, _, rows, columns, heads in tensors_of(shape):
            data = source.matrix(rows, columns) if rows else bfloat16_bytes([1.0] * columns)
            parameters += max(rows, 1) * columns
            out.write(data)
            if gguf:
                if not rows:
                    data = array.array("f", [1.0] * columns).tobytes()
                elif heads:
                    data = permuted(data, heads, columns)
                gguf.write(data + bytes(aligned(len(data)) - len(data)))
    if gguf:
        gguf.close()
    return parameters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the Hugging Face folder to write")
    parser.add_argument("--gguf", help="also write the weights to this GGUF file")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--inner", type=int, default=4864)
    parser.add_argument("--query-heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--context", type=int, default=32768)
    parser.add_argument("--seed", type=int, default=1)
    shape = parser.parse_args()
    os.makedirs(shape.folder, exist_ok=True)
    write_text_files(shape, shape.folder)
    parameters = write_weights(shape, shape.folder, shape.gguf)
    print(f"{shape.folder}: {parameters:,} parameters")


if __name__ == "__main__":
    main()
