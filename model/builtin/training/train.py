"""Trains the micro-model: half of the tokens plain English, half fact documents, longer step by step.

Stops after --minutes; the learning rate falls over the last part of that time. Progress goes to <out>/log.jsonl, the
weights to <out>/checkpoint.pt every few minutes. Each of --workers processes computes the gradient of its own rows on one
thread; the first one averages and steps. Beside other load that is faster than threads, which wait for each other in
every operation.
"""
import argparse
import json
import math
import os
import pathlib
import random
import threading
import time

import torch
import torch.multiprocessing as multiprocessing
import torch.nn.functional as F

import byte_bpe
import facts
import micro_model

SEED = 7
STAGES = [96, 160, 256, 512, 1152]  # tokens a row; the last stage also sees rows of 2,048
ADVANCE_AT, STAGE_STEPS = 0.93, 20  # the next stage begins at this accuracy over value tokens, after so many steps
IGNORED, ENGLISH, FRAME, VALUE = range(4)  # what a token's loss counts as
FIGURES = ["english", "frame", "value", "accuracy"]
LOSS_WEIGHTS = {ENGLISH: 1.0, FRAME: 0.5, VALUE: 2.0}
# The start circuit is large numbers that small steps in all directions would drown: it learns slowly, the rest fast.
RATE_SHARES = {"layers.0.self_attn": 0.5, "layers.3.self_attn": 0.5, "embed_tokens": 0.6}
PEAK_RATE, BETAS, CLIP, WEIGHT_DECAY = 1e-3, (0.9, 0.98), 1.0, 0.02
WARMUP_STEPS, DECAY_FROM = 100, 0.4


class Rows:
    """Training rows: lists of token ids with the class of each token's loss."""

    def __init__(self, corpus, tokenizer, seed):
        self.rng, self.tokenizer = random.Random(seed), tokenizer
        self.texts, paragraphs = [], []
        for name in ("austen", "web"):
            text = (corpus / f"{name}.train.txt").read_text()
            paragraphs += text.splitlines()
            self.texts.append(tokenizer.encode(text))
        self.maker = facts.FactMaker(self.rng, facts.value_words(paragraphs), facts.split_sentences(paragraphs))
        self.english_sentences = set(self.maker.sentences)
        self.token_counts = {}

    def count(self, text):
        if text not in self.token_counts:
            self.token_counts[text] = len(self.tokenizer.encode(text))
        return self.token_counts[text] if len(self.token_counts) < 10**6 else self.token_counts.pop(text)

    def english(self, length):
        text = self.rng.choices(self.texts, weights=[3, 2])[0]
        start = self.rng.randrange(len(text) - length)
        ids = text[start : start + length]
        kinds = [ENGLISH] * length
        style = self.rng.random()
        if style < 0.2:
            ids, kinds = [self.tokenizer.specials["<|endoftext|>"]] + ids[:-1], [IGNORED] + kinds[:-1]
        elif style < 0.4:  # a user who begins a text, an assistant who goes on
            begun = self.rng.randrange(8, 48)
            head, middle = self.tokenizer.encode("<|im_start|>user\n"), self.tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n")
            ids = (head + ids[:begun] + middle + ids[begun:])[:length]
            kinds = ([IGNORED] * len(head) + kinds[:begun] + [IGNORED] * len(middle) + kinds[begun:])[:length]
        return ids, kinds

    def recall(self, length):
        self.ids, self.kinds = [], []
        chat = self.rng.random() < 0.75
        tail = max(26 if chat else 10, int(length * self.rng.uniform(0.12, 0.5)))
        share = self.rng.uniform(0.2, 0.5) if length > 100 else 0.1
        document = self.maker.document(length - tail - 4, self.count, english_share=share, question_count=2 + tail // 5)
        self.put("<|im_start|>user\n", IGNORED)
        for index, sentence in enumerate(document.pieces):
            self.put((" " if index else "") + sentence, ENGLISH if sentence in self.english_sentences else IGNORED)
        if chat:
            self.put_questions(document.questions, length)
        else:
            for fact in document.restated:
                self.put_fact(" " + fact)
                if len(self.ids) >= length:
                    break
        return self.ids[:length], self.kinds[:length]

    def put(self, text, kind):
        ids = self.tokenizer.encode(text)
        self.ids += ids
        self.kinds += [kind] * len(ids)

    def put_fact(self, fact):
        verb = " holds" if " holds " in fact else " follows the"
        before, _, value = fact.partition(verb)
        self.put(before + verb, IGNORED)
        self.put(value, VALUE)

    def put_questions(self, questions, length):
        joint = "\n"
        for _, question, answer in questions:
            self.put(f"{joint}{question}<|im_end|>\n<|im_start|>assistant\n", IGNORED)
            verb = " follows the" if " follows the " in answer else " holds"
            key, _, value = answer.removeprefix("The").partition(verb)
            for text, kind in (("The", FRAME), (key, VALUE), (verb, FRAME), (value, VALUE)):
                self.put(text, kind)
            self.put("<|im_end|>", FRAME)
            joint = "\n<|im_start|>user\n"
            if len(self.ids) >= length:
                return

    def batch(self, length, row_count, recall_share):
        drawn = [self.rng.random() < recall_share for _ in range(row_count)]
        rows = [self.recall(length) if recall else self.english(length) for recall in drawn]
        filler = self.tokenizer.specials["<|endoftext|>"]
        ids = torch.tensor([ids + [filler] * (length - len(ids)) for ids, _ in rows])
        kinds = torch.tensor([kinds + [IGNORED] * (length - len(kinds)) for _, kinds in rows])
        return ids, kinds


def losses(model, ids, kinds):
    """(loss by kind, accuracy over value tokens). Only positions that count reach the vocabulary."""
    hidden, _ = model.hidden(ids[:, :-1])
    kinds, targets = kinds[:, 1:], ids[:, 1:]
    counted = kinds != IGNORED
    logits = model.logits(hidden[counted])
    kinds, targets = kinds[counted], targets[counted]
    each = F.cross_entropy(logits, targets, reduction="none")
    parts = {kind: each[kinds == kind].mean() for kind in (ENGLISH, FRAME, VALUE) if (kinds == kind).any()}
    values = kinds == VALUE
    accuracy = (logits[values].argmax(-1) == targets[values]).float().mean().item() if values.any() else None
    return parts, accuracy


def learning_rate(peak, step, progress):
    rate = peak * min(1, (step + 1) / WARMUP_STEPS)
    if progress > DECAY_FROM:
        rate *= 1 - 0.95 * (progress - DECAY_FROM) / (1 - DECAY_FROM)
    return rate


def choose_length(rng, stage):
    """Mostly the present stage; now and then an earlier one, and in the last stage the whole context."""
    if stage and rng.random() < 0.25:
        return STAGES[rng.randrange(stage)]
    if stage == len(STAGES) - 1 and rng.random() < 0.1:
        return 2048
    return STAGES[stage]


class Shared:
    """What the workers share: the model, a gradient and figures for each worker, the length of the step's rows."""

    def __init__(self, model, workers):
        self.model = model.share_memory()
        self.gradients = [[torch.zeros_like(p).share_memory_() for p in model.parameters()] for _ in range(workers)]
        self.figures = torch.full((workers, len(FIGURES)), math.nan).share_memory_()
        self.length = torch.zeros(1, dtype=torch.long).share_memory_()  # 0: stop
        self.begin, self.done = multiprocessing.Barrier(workers), multiprocessing.Barrier(workers)


def compute_gradient(shared, worker, rows, options):
    """Draws this worker's rows and leaves their gradient and figures in `shared`."""
    length = int(shared.length)
    ids, kinds = rows.batch(length, max(1, options.tokens // length), options.recall_share)
    parts, accuracy = losses(shared.model, ids, kinds)
    loss = sum(LOSS_WEIGHTS[kind] * part for kind, part in parts.items())
    for kept, gradient in zip(shared.gradients[worker], torch.autograd.grad(loss, list(shared.model.parameters()))):
        kept.copy_(gradient)
    figures = [parts[kind].item() if kind in parts else math.nan for kind in (ENGLISH, FRAME, VALUE)]
    shared.figures[worker] = torch.tensor(figures + [math.nan if accuracy is None else accuracy])


def follow(shared, worker, rows, seed, options):
    """A worker's life, but the first one's. It ends with the first one, however that ends."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    rows.rng.seed(seed)
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            shared.begin.wait(timeout=600)
        except threading.BrokenBarrierError:
            return
        if shared.length == 0:
            return
        try:
            compute_gradient(shared, worker, rows, options)
        except BaseException:
            shared.done.abort()  # or else the first worker would wait for ever
            raise
        shared.done.wait()


def step_all(shared, rows, optimizer, rate, options):
    """One step of all workers; returns the mean figures by name."""
    shared.begin.wait()
    compute_gradient(shared, 0, rows, options)
    shared.done.wait()
    for parameter, *gradients in zip(shared.model.parameters(), *shared.gradients):
        parameter.grad = torch.stack(gradients).mean(0)
    shared.model.norm.weight.grad[micro_model.INPUT_ONLY] = 0
    torch.nn.utils.clip_grad_norm_(shared.model.parameters(), CLIP)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["share"]
    optimizer.step()
    means = shared.figures.nanmean(0)
    return {name: mean.item() for name, mean in zip(FIGURES, means) if not math.isnan(mean)}


def parameter_groups(model):
    groups = []
    for name, parameter in model.named_parameters():
        share = next((share for prefix, share in RATE_SHARES.items() if name.startswith(prefix)), 1.0)
        groups.append({"params": [parameter], "share": share, "weight_decay": WEIGHT_DECAY if parameter.dim() == 2 else 0.0})
    return groups


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder with tokenizer.json")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for log and checkpoint")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=640, help="tokens a step and worker")
    parser.add_argument("--recall-share", type=float, default=0.5)
    parser.add_argument("--peak-rate", type=float, default=PEAK_RATE)
    parser.add_argument("--stage", type=int, help="with --resume: the stage to go on with")
    parser.add_argument("--resume", type=pathlib.Path, help="checkpoint to go on from")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # without it steps become several times slower as small gradients appear
    torch.manual_seed(SEED)
    print(f"seed {SEED}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)

    tokenizer = byte_bpe.Tokenizer.load(options.model / "tokenizer.json")
    model = micro_model.MicroModel()
    one_token = lambda words: [tokenizer.encode(" " + word)[0] for word in words]
    micro_model.start_weights(model, one_token(facts.ADJECTIVES), one_token(facts.NOUNS), SEED)
    state = {"step": 0, "stage": 0, "tokens": 0, "minutes": 0.0}
    saved = torch.load(options.resume) if options.resume else None
    if saved:
        model.load_state_dict(saved["model"])
        state = saved["state"]
        state["stage"] = state["stage"] if options.stage is None else options.stage
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=options.peak_rate, betas=BETAS)
    if saved:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": saved["optimizer"]["state"]})
    shared = Shared(model, options.workers)
    seeds = [SEED + 1000 * worker + state["step"] for worker in range(options.workers)]
    rows = Rows(options.corpus, tokenizer, seeds[0])
    for worker in range(1, options.workers):
        multiprocessing.Process(target=follow, args=(shared, worker, rows, seeds[worker], options), daemon=True).start()
    train(shared, optimizer, rows, state, options)
    shared.length.fill_(0)
    shared.begin.wait()


def train(shared, optimizer, rows, state, options):
    log = (options.out / "log.jsonl").open("a")
    began, before, saved_at, means = time.monotonic(), state["minutes"], time.monotonic(), {}
    rng, stage_steps = random.Random(SEED + state["step"]), 0
    while state["minutes"] - before < options.minutes:
        length = choose_length(rng, state["stage"])
        shared.length.fill_(length)
        rate = learning_rate(options.peak_rate, state["step"], (state["minutes"] - before) / options.minutes)
        figures = step_all(shared, rows, optimizer, rate, options)
        state["step"] += 1
        state["tokens"] += length * max(1, options.tokens // length) * options.workers
        state["minutes"] = before + (time.monotonic() - began) / 60
        if length < STAGES[state["stage"]]:
            figures.pop("accuracy", None)
        for name, value in figures.items():
            means[name] = value if name not in means else 0.95 * means[name] + 0.05 * value
        stage_steps += 1
        if stage_steps >= STAGE_STEPS and means.get("accuracy", 0) > ADVANCE_AT and state["stage"] + 1 < len(STAGES):
            state["stage"] += 1
            means.pop("accuracy")
            stage_steps = 0
        if state["step"] % 20 == 0:
            entry = {**state, "minutes": round(state["minutes"], 2), "length": STAGES[state["stage"]], "rate": round(rate, 6)}
            entry.update((name, round(value, 4)) for name, value in means.items())
            print(json.dumps(entry), file=log, flush=True)
        if time.monotonic() - saved_at > 120 or state["minutes"] - before >= options.minutes:
            saved_at = time.monotonic()
            torch.save({"model": shared.model.state_dict(), "optimizer": optimizer.state_dict(), "state": state}, options.out / "checkpoint.pt")


if __name__ == "__main__":
    main()
