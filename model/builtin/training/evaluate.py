"""Measures the exported model: recall by context length, kind of question and length of value; loss on held-out English.

Everything is drawn with seeds that training never uses, between sentences that it never saw. An answer counts if every
one of its tokens, and the <|im_end|> after it, is what greedy decoding picks.
"""
import argparse
import collections
import json
import math
import pathlib
import random

import torch
import torch.nn.functional as F

import facts
from export import load_exported

SEED = 20_001
LENGTHS = [256, 512, 1000, 1900]
ENGLISH_WINDOW = 512


def heldout_paragraphs(corpus, source):
    return (corpus / f"{source}.heldout.txt").read_text().splitlines()


def draw_contexts(corpus, tokenizer, *, tokens, contexts, questions, seed):
    """[{"context", "facts", "questions": [{"kind", "question", "answer"}]}] with about `tokens` tokens each."""
    training_text = [line for name in ("austen", "web") for line in (corpus / f"{name}.train.txt").read_text().splitlines()]
    words = facts.value_words(training_text)
    sentences = facts.split_sentences(heldout_paragraphs(corpus, "austen") + heldout_paragraphs(corpus, "web"))
    maker = facts.FactMaker(random.Random(seed), words, sentences)
    count = lambda text: len(tokenizer.encode(text))
    drawn = []
    for _ in range(contexts):
        document = maker.document(tokens, count, english_share=0.3, question_count=4 * questions)
        distinct = list(dict.fromkeys(document.questions))[:questions]
        asked = [{"kind": kind, "question": question, "answer": answer} for kind, question, answer in distinct]
        drawn.append({"context": " ".join(document.pieces), "facts": document.facts, "questions": asked})
    return drawn


def to_bf16(tensor):
    return tensor.to(torch.bfloat16).float()


@torch.no_grad()
def recalled(model, tokenizer, past, questions, kv_filter=None):
    """For each question: whether greedy decoding after the context (whose KV is `past`) and it gives the answer and stops."""
    prompts = [tokenizer.encode(f"\n{asked['question']}<|im_end|>\n<|im_start|>assistant\n") for asked in questions]
    answers = [tokenizer.encode(asked["answer"] + "<|im_end|>") for asked in questions]
    rows = [prompt + answer[:-1] for prompt, answer in zip(prompts, answers)]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])  # what follows a row does not reach it
    picked = model.logits(model.hidden(ids, past, kv_filter)[0]).argmax(-1).tolist()
    # Teacher forcing is greedy decoding as long as every pick is right, and one wrong pick is a miss either way.
    return [picks[len(prompt) - 1 : len(row)] == answer for picks, prompt, row, answer in zip(picked, prompts, rows, answers)]


@torch.no_grad()
def measure_recall(model, tokenizer, contexts, kv_filter=None):
    """[(kind, tokens of the value, recalled)] over all questions."""
    results = []
    for item in contexts:
        ids = tokenizer.encode(f"<|im_start|>user\n{item['context']}")
        _, past = model.hidden(torch.tensor([ids]), None, kv_filter)
        for asked, right in zip(item["questions"], recalled(model, tokenizer, past, item["questions"], kv_filter)):
            value = asked["answer"].partition(" holds")[2].removesuffix(".")
            results.append((asked["kind"], len(tokenizer.encode(value)), right))
    return results


def share(results):
    return round(sum(right for *_, right in results) / max(1, len(results)), 4)


def by(results, column):
    groups = collections.defaultdict(list)
    for result in results:
        groups[result[column]].append(result)
    return {str(key): {"accuracy": share(group), "questions": len(group)} for key, group in sorted(groups.items())}


@torch.no_grad()
def measure_english(model, tokenizer, paragraphs):
    text = "\n".join(paragraphs)
    ids = tokenizer.encode(text)
    total, count = 0.0, 0
    for start in range(0, len(ids) - ENGLISH_WINDOW, ENGLISH_WINDOW):
        window = torch.tensor([ids[start : start + ENGLISH_WINDOW + 1]])
        hidden, _ = model.hidden(window[:, :-1])
        total += F.cross_entropy(model.logits(hidden[0]), window[0, 1:], reduction="sum").item()
        count += ENGLISH_WINDOW
    characters = len(tokenizer.decode(ids[1 : count + 1]))
    return {"loss": round(total / count, 4), "perplexity": round(math.exp(total / count), 2),
            "bits_per_character": round(total / characters / math.log(2), 4), "tokens": count}  # fmt: skip


@torch.no_grad()
def continuation(model, tokenizer, prompt, *, tokens, temperature, seed):
    generator = torch.Generator().manual_seed(seed)
    ids, past = tokenizer.encode(prompt), None
    step = torch.tensor([ids])
    for _ in range(tokens):
        hidden, past = model.hidden(step, past)
        logits = model.logits(hidden[0, -1])
        if temperature == 0:
            choice = logits.argmax().item()
        else:
            choice = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=generator).item()
        if choice in tokenizer.specials.values():
            break
        ids.append(choice)
        step = torch.tensor([[choice]])
    return tokenizer.decode(ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--contexts", type=int, default=40, help="contexts a length, each with --questions questions")
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--out", type=pathlib.Path, help="evaluation.json to write")
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    model, tokenizer = load_exported(options.model)
    report = {"seed": SEED, "recall": {}}
    for tokens in LENGTHS:
        contexts = draw_contexts(options.corpus, tokenizer, tokens=tokens, contexts=options.contexts,
                                 questions=options.questions, seed=SEED + tokens)  # fmt: skip
        entry = {"facts": round(sum(item["facts"] for item in contexts) / len(contexts), 1)}
        for name, kv_filter in (("f32_kv", None), ("bf16_kv", to_bf16)) if tokens == 1000 else (("f32_kv", None),):
            results = measure_recall(model, tokenizer, contexts, kv_filter)
            singles = [result for result in results if result[0] == "single"]
            entry[name] = {"by_kind": by(results, 0), "single_by_value_tokens": by(singles, 1)}
        report["recall"][tokens] = entry
        print(tokens, json.dumps(entry), flush=True)
    report["english"] = {name: measure_english(model, tokenizer, heldout_paragraphs(options.corpus, name)) for name in ("austen", "web")}
    print(json.dumps(report["english"]))
    prompts = ["It was a fine morning, and Elizabeth", "The captain looked at her, and"]
    report["continuations"] = [continuation(model, tokenizer, prompt, tokens=60, temperature=0.7, seed=1) for prompt in prompts]
    print("\n".join(report["continuations"]))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
