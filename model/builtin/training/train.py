"""Trains the micro-model: some workers draw plain English, the others fact documents, longer step by step.

Stops after --minutes; the learning rate falls over the last part of that time. Progress goes to <out>/log.jsonl, the
weights to <out>/checkpoint.pt every two minutes. Each of --workers processes computes the gradient of its own rows on
one thread; the first one averages and steps. Beside other load that is faster than threads, which wait for each other
in every operation.
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
SMOOTHING = 5.0  # tokens that each row of pair counts gets from the overall counts
FIGURES = ["english", "frame", "value", "accuracy"]
LOSS_WEIGHTS = {ENGLISH: 1.0, FRAME: 0.5, VALUE: 2.0}
# Each task has an optimizer of its own: recall's gradients are ten times as large as English's, and rare; in one optimizer
# they would shrink English's steps to nothing. Shares of the rate: English must not drown the start circuit.
RATE_SHARES = {
    "english": {"layers.0.self_attn": 0.1, "layers.3.self_attn": 0.1, "embed_tokens": 0.5},
    "recall": {"layers.0.self_attn": 0.4, "layers.3.self_attn": 0.4, "embed_tokens": 0.4, "": 0.6},
}
CLIP = {"english": 10.0, "recall": 40.0}
PEAK_RATE, BETAS, WEIGHT_DECAY = 1.2e-3, (0.9, 0.98), 0.02
WARMUP_STEPS = 40


def followers(texts, vocab_size):
    """(token, next token) -> how often in the texts the second follows the first, as a share; little-seen pairs smoothed."""
    stream = torch.tensor([index for text in texts for index in text])
    pairs = torch.bincount(stream[:-1] * vocab_size + stream[1:], minlength=vocab_size**2).view(vocab_size, vocab_size).float()
    overall = torch.bincount(stream, minlength=vocab_size).float() + 0.1
    pairs += SMOOTHING * overall / overall.sum()
    return pairs / pairs.sum(1, keepdim=True)


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
        self.followers = followers(self.texts, len(tokenizer.pieces))
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
            self.put((" " if index else "") + sentence, IGNORED)
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

    def batch(self, length, row_count, recall):
        rows = [self.recall(length) if recall else self.english(length) for _ in range(row_count)]
        filler = self.tokenizer.specials["<|endoftext|>"]
        ids = torch.tensor([ids + [filler] * (length - len(ids)) for ids, _ in rows])
        kinds = torch.tensor([kinds + [IGNORED] * (length - len(kinds)) for _, kinds in rows])
        return ids, kinds


def losses(model, ids, kinds, followers=None, soft_share=0.0):
    """(loss by kind, accuracy over value tokens, what to add to the loss). Only positions that count reach the vocabulary.
    With soft_share > 0 the last moves that share of the English loss to how often tokens follow each other in all the
    texts: a target without sampling noise, which takes the place of many steps while little more than that is learned."""
    hidden, _ = model.hidden(ids[:, :-1])
    kinds, targets = kinds[:, 1:], ids[:, 1:]
    counted = kinds != IGNORED
    logits = model.logits(hidden[counted])
    kinds, targets, current = kinds[counted], targets[counted], ids[:, :-1][counted]
    each = F.cross_entropy(logits, targets, reduction="none")
    parts = {kind: each[kinds == kind].mean() for kind in (ENGLISH, FRAME, VALUE) if (kinds == kind).any()}
    values = kinds == VALUE
    accuracy = (logits[values].argmax(-1) == targets[values]).float().mean().item() if values.any() else None
    english, extra = kinds == ENGLISH, 0.0
    if soft_share > 0 and english.any():
        soft = F.cross_entropy(logits[english], followers[current[english]])
        extra = soft_share * (soft - parts[ENGLISH])
    return parts, accuracy, extra


def learning_rate(peak, step, progress, decay_from):
    """Rises over the first steps of a run; falls to a twentieth from the share decay_from of its time on."""
    rate = peak * min(1, (step + 1) / WARMUP_STEPS)
    if progress > decay_from:
        rate *= 1 - 0.95 * (progress - decay_from) / (1 - decay_from)
    return rate


def choose_length(rng, stage):
    """Mostly the present stage; now and then an earlier one. In the last stage mostly shorter rows (many small steps
    teach English sooner than few large ones), some of the stage's length and a few of the whole context."""
    if stage == len(STAGES) - 1:
        return rng.choices([256, 512, STAGES[stage], 2048], weights=[15, 35, 42, 8])[0]
    if stage and rng.random() < 0.25:
        return STAGES[rng.randrange(stage)]
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
    """Draws this worker's rows, English or fact documents, and leaves their gradient and figures in `shared`."""
    length = int(shared.length)
    recall = worker >= options.english_workers
    if not recall:
        length = min(length, 512)
    ids, kinds = rows.batch(length, max(1, options.tokens // length), recall)
    parts, accuracy, extra = losses(shared.model, ids, kinds, rows.followers, options.soft_share)
    loss = sum(LOSS_WEIGHTS[kind] * part for kind, part in parts.items()) + extra
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


def step_all(shared, rows, optimizers, rate, options):
    """One step of all workers; returns the mean figures by name."""
    shared.begin.wait()
    compute_gradient(shared, 0, rows, options)
    shared.done.wait()
    split = options.english_workers
    for task, gradients in (("english", shared.gradients[:split]), ("recall", shared.gradients[split:])):
        for parameter, *parts in zip(shared.model.parameters(), *gradients):
            parameter.grad = torch.stack(parts).mean(0)
        shared.model.norm.weight.grad[micro_model.INPUT_ONLY] = 0
        torch.nn.utils.clip_grad_norm_(shared.model.parameters(), CLIP[task])
        for group in optimizers[task].param_groups:
            group["lr"] = rate * group["share"]
        optimizers[task].step()
    means = shared.figures.nanmean(0)
    return {name: mean.item() for name, mean in zip(FIGURES, means) if not math.isnan(mean)}


def make_optimizer(model, task):
    groups = []
    for name, parameter in model.named_parameters():
        share = next((share for prefix, share in RATE_SHARES[task].items() if name.startswith(prefix)), 1.0)
        decay = WEIGHT_DECAY if parameter.dim() == 2 else 0.0
        groups.append({"params": [parameter], "share": share, "weight_decay": decay})
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=BETAS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder with tokenizer.json")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for log and checkpoint")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=512, help="tokens a step and worker")
    parser.add_argument("--english-workers", type=int, default=2, help="workers with English; the others have fact documents")
    parser.add_argument("--peak-rate", type=float, default=PEAK_RATE)
    parser.add_argument("--decay-from", type=float, default=0.5, help="share of the time after which the rate falls")
    parser.add_argument("--soft-share", type=float, default=0.0, help="of the English loss, against overall counts of pairs")
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
    optimizers = {task: make_optimizer(model, task) for task in RATE_SHARES}
    for task, optimizer in optimizers.items():
        if saved and "optimizers" in saved:
            optimizer.load_state_dict({**optimizer.state_dict(), "state": saved["optimizers"][task]["state"]})
    shared = Shared(model, options.workers)
    seeds = [SEED + 1000 * worker + state["step"] for worker in range(options.workers)]
    rows = Rows(options.corpus, tokenizer, seeds[0])
    for worker in range(1, options.workers):
        multiprocessing.Process(target=follow, args=(shared, worker, rows, seeds[worker], options), daemon=True).start()
    train(shared, optimizers, rows, state, options)
    shared.length.fill_(0)
    shared.begin.wait()


def train(shared, optimizers, rows, state, options):
    log = (options.out / "log.jsonl").open("a")
    began, before, saved_at, means = time.monotonic(), state["minutes"], time.monotonic(), {}
    rng, stage_steps = random.Random(SEED + state["step"]), 0
    while state["minutes"] - before < options.minutes:
        length = choose_length(rng, state["stage"])
        shared.length.fill_(length)
        progress = (state["minutes"] - before) / options.minutes
        rate = learning_rate(options.peak_rate, state["step"], progress, options.decay_from)
        figures = step_all(shared, rows, optimizers, rate, options)
        state["step"] += 1
        state["tokens"] += length * max(1, options.tokens // length) * options.workers  # rounded up where English rows are shorter
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
            saved = {"model": shared.model.state_dict(), "state": state}
            saved["optimizers"] = {task: optimizer.state_dict() for task, optimizer in optimizers.items()}
            torch.save(saved, options.out / "checkpoint.pt")


if __name__ == "__main__":
    main()
