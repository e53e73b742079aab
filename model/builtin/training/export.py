"""Writes a checkpoint as a Hugging Face folder: model.safetensors (bf16), config.json, generation_config.json."""
import argparse
import json
import pathlib
import struct

import torch

import micro_model
from byte_bpe import SPECIALS, Tokenizer


def tensors_of(model):
    """Name -> bf16 tensor, as a Hugging Face Llama with tied embeddings names them."""
    return {"model." + name: value.to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * 2
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.view(torch.int16).numpy().tobytes())


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "BF16"
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            raw = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.int16).view(torch.bfloat16)
            tensors[name] = raw.view(entry["shape"])
    return tensors


def load_exported(folder):
    """(model with the exported weights widened to float32, tokenizer)."""
    model = micro_model.MicroModel()
    tensors = read_safetensors(pathlib.Path(folder) / "model.safetensors")
    model.load_state_dict({name.removeprefix("model."): tensor.float() for name, tensor in tensors.items()})
    return model.eval(), Tokenizer.load(pathlib.Path(folder) / "tokenizer.json")


def config_json(config, special_ids):
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": special_ids["<|endoftext|>"],
        "eos_token_id": special_ids["<|im_end|>"],
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": config.intermediate_size,
        "max_position_embeddings": config.max_position_embeddings,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": config.num_attention_heads,
        "num_hidden_layers": config.num_hidden_layers,
        "num_key_value_heads": config.num_key_value_heads,
        "pretraining_tp": 1,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_scaling": None,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": config.vocab_size,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder with tokenizer.json; gets the weights")
    options = parser.parse_args()
    model = micro_model.MicroModel()
    model.load_state_dict(torch.load(options.checkpoint)["model"])
    tokenizer = Tokenizer.load(options.model / "tokenizer.json")
    assert list(tokenizer.specials) == SPECIALS
    write_safetensors(options.model / "model.safetensors", tensors_of(model))
    generation = {"bos_token_id": tokenizer.specials["<|endoftext|>"], "eos_token_id": tokenizer.specials["<|im_end|>"]}
    for name, content in (
        ("config.json", config_json(model.config, tokenizer.specials)),
        ("generation_config.json", {**generation, "do_sample": False}),
    ):
        (options.model / name).write_text(json.dumps(content, indent=2) + "\n")
    back = read_safetensors(options.model / "model.safetensors")
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors_of(model).items())
    size = (options.model / "model.safetensors").stat().st_size
    print(f"{sum(tensor.numel() for tensor in back.values())} parameters, {size} bytes")


if __name__ == "__main__":
    main()
