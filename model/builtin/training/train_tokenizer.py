"""Learns the byte-level BPE from the texts and from fact documents; writes tokenizer.json and tokenizer_config.json."""
import argparse
import collections
import json
import pathlib
import random

import byte_bpe
import facts

VOCAB_SIZE = 2048
CONTEXT = 2048
SEED = 1
FACT_SENTENCES = 60_000
KEY_WORD_COUNT = 5_000  # makes every word of a key one token
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def count_words(corpus):
    counts = collections.Counter()
    paragraphs = []
    for path in sorted(corpus.glob("*.train.txt")):
        paragraphs += path.read_text().splitlines()
    for paragraph in paragraphs:
        counts.update(byte_bpe.SPLIT.findall(paragraph))
    maker = facts.FactMaker(random.Random(SEED), facts.value_words(paragraphs), [])
    for word in facts.ADJECTIVES + facts.NOUNS:
        counts[" " + word] += KEY_WORD_COUNT
    for _ in range(FACT_SENTENCES):
        counts.update(byte_bpe.SPLIT.findall(f" holds {maker.value()}. follows the"))
    for role in ("system", "user", "assistant"):
        counts[role] += 2 * FACT_SENTENCES
    for question in facts.QUESTIONS.values():
        for word in byte_bpe.SPLIT.findall(question.replace("{key} ", "")):
            counts[word] += 2000
    return counts


def added_token(index, text):
    return {"id": index, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def tokenizer_json(tokenizer):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(index, text) for text, index in tokenizer.specials.items()],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": tokenizer.vocab,
            "merges": [" ".join(merge) for merge in tokenizer.merges],
        },
    }


def tokenizer_config(tokenizer):
    decoder = {}
    for text, index in tokenizer.specials.items():
        decoder[str(index)] = {key: value for key, value in added_token(index, text).items() if key != "id"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "add_eos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "model_max_length": CONTEXT,
        "added_tokens_decoder": decoder,
        "chat_template": CHAT_TEMPLATE,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=pathlib.Path, required=True, help="folder that make_corpus.py wrote")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the model")
    options = parser.parse_args()
    counts = count_words(options.corpus)
    pieces = VOCAB_SIZE - len(byte_bpe.SYMBOLS) - len(byte_bpe.SPECIALS)
    tokenizer = byte_bpe.Tokenizer(byte_bpe.learn_merges(counts, pieces))
    assert len(tokenizer.pieces) == VOCAB_SIZE
    for name, content in (("tokenizer.json", tokenizer_json(tokenizer)), ("tokenizer_config.json", tokenizer_config(tokenizer))):
        (options.out / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    split = [word for word in facts.ADJECTIVES + facts.NOUNS + ["holds", "follows"] if len(tokenizer.encode(" " + word)) > 1]
    print(f"{len(counts)} words, {len(tokenizer.merges)} merges; words of keys that are not one token: {split}")


if __name__ == "__main__":
    main()
