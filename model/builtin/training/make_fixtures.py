"""Writes what the C++ tests compare with: recall.jsonl, logits.json and tokenizer_cases.json.

All come from the exported model (bf16 weights widened to float32) and from byte_bpe.py.
"""
import argparse
import json
import pathlib
import random

import torch

import evaluate
from export import load_exported

RECALL_SEED, LOGITS_SEED = 30_001, 30_002
CONTEXTS, QUESTIONS, CONTEXT_TOKENS = 25, 8, 1000

TOKENIZER_TEXTS = [
    "", " ", "a", "The red fox holds 4821.", "What does the red fox hold?", "Hello, world!", "  two spaces before",
    "two spaces after  ", "inner   runs    of     spaces", "\n", "\n\n", "line\nline", "line\n\n\nline", " \n ", "tab\there",
    "\t\tindented\n\t\ttwice", "crlf\r\nline", "don't I'll we've they're she'd I'm it's", "DON'T SHOUT'S", "0", "7 42 482 4821 48210 482193 1234567890",
    "3.14159 -17 1,000,000 2^10 50%", "x=1;y=2", "snake_case camelCase kebab-case", "http://example.org/path?query=value#part",
    "if (a[i] != b->c) { return *p++; }", "!!! ??? ... --- ___ ***", "caf\u00e9 na\u00efve r\u00e9sum\u00e9", "cafe\u0301 combining",
    "Gr\u00fc\u00dfe aus M\u00fcnchen", "\u0417\u0434\u0440\u0430\u0432\u0441\u0442\u0432\u0443\u0439, \u043c\u0438\u0440", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5",
    "\u4f60\u597d\uff0c\u4e16\u754c", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c", "\uc548\ub155\ud558\uc138\uc694", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0661\u0662\u0663 \u0967\u0968\u0969 \u00bd \u00b2", "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "no\u00a0break\u2003em\u3000wide", "zero\u200bwidth",
    "<|im_start|>user\nWhat does the red fox hold?<|im_end|>\n<|im_start|>assistant\n", "text<|endoftext|>text", "<|im_start|><|im_end|><|endoftext|>",
    "<|im_start| not a special |im_end|>", " <|im_end|> ",
]  # fmt: skip


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write_recall(options, model, tokenizer):
    """One context a line, its questions with whether torch answers them, with KV in float32 and with KV rounded to bf16."""
    contexts = evaluate.draw_contexts(options.corpus, tokenizer, tokens=CONTEXT_TOKENS, contexts=CONTEXTS,
                                      questions=QUESTIONS, seed=RECALL_SEED)  # fmt: skip
    summary = {"seed": RECALL_SEED}
    for name, kv_filter in (("f32_kv", None), ("bf16_kv", evaluate.to_bf16)):
        results = evaluate.measure_recall(model, tokenizer, contexts, kv_filter)
        outcomes = iter(results)
        for item in contexts:
            for asked in item["questions"]:
                asked["torch_" + name] = next(outcomes)[2]
        summary[name] = {"all": evaluate.share(results), **evaluate.by(results, 0)}
    for item in contexts:
        item["tokens"] = len(tokenizer.encode(item["context"]))
    (options.out / "recall.jsonl").write_text("".join(compact(item) + "\n" for item in contexts))
    (options.out / "recall_expected.json").write_text(json.dumps(summary, indent=1) + "\n")
    print("recall", json.dumps(summary))
    return contexts


@torch.no_grad()
def write_logits(options, model, tokenizer, contexts):
    """For two sequences, at a few positions: the 20 highest logits and 64 at fixed indices."""
    english = "\n".join(evaluate.heldout_paragraphs(options.corpus, "austen")[:10])
    chat = f"<|im_start|>user\n{contexts[0]['context']}"
    fixed = sorted(random.Random(LOGITS_SEED).sample(range(model.config.vocab_size), 64))
    sequences = []
    for name, text, length, positions in (("english", english, 40, (0, 1, 7, 20, 39)), ("facts", chat, 200, (0, 63, 64, 127, 150, 199))):
        ids = tokenizer.encode(text)[:length]
        assert len(ids) == length
        logits = model.logits(model.hidden(torch.tensor([ids]))[0][0])
        shown = []
        for position in positions:
            top = logits[position].topk(20)
            shown.append({
                "position": position,
                "top_ids": top.indices.tolist(),
                "top_logits": [round(value, 5) for value in top.values.tolist()],
                "fixed_logits": [round(value, 5) for value in logits[position, fixed].tolist()],
            })  # fmt: skip
        sequences.append({"name": name, "ids": ids, "positions": shown})
    (options.out / "logits.json").write_text(compact({"fixed_ids": fixed, "sequences": sequences}) + "\n")


def write_tokenizer_cases(options, tokenizer):
    cases = [{"text": text, "ids": tokenizer.encode(text)} for text in TOKENIZER_TEXTS]
    assert all(tokenizer.decode(case["ids"]) == case["text"] for case in cases)
    (options.out / "tokenizer_cases.json").write_text("[\n" + ",\n".join(map(compact, cases)) + "\n]\n")
    print(len(cases), "tokenizer cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="tests/data/builtin")
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    print(f"seeds {RECALL_SEED}, {LOGITS_SEED}")
    model, tokenizer = load_exported(options.model)
    write_tokenizer_cases(options, tokenizer)
    contexts = write_recall(options, model, tokenizer)
    write_logits(options, model, tokenizer, contexts)


if __name__ == "__main__":
    main()
