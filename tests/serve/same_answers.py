"""Requests whose answers must be equal to the last digit wherever they are computed, and the comparing."""
import json
import random

from harness import together

COMPLETIONS = "/v1/completions"
WORDS = "the king and his three sons went down to the sea where a white ship lay at anchor in the morning light".split()


def requests(seed=3):
    draw = random.Random(seed)
    made = []
    for index in range(16):
        prompt = " ".join(draw.choice(WORDS) for _ in range(draw.choice((2, 15, 40, 150, 400))))
        if index % 4 == 1:
            prompt = made[index - 1]["prompt"] + " " + prompt  # begins as another does
        sampling = {"temperature": 0} if index % 2 else {"temperature": 1.2, "top_p": 0.9, "seed": 100 + index}
        if index % 5 == 4:
            sampling |= {"repetition_penalty": 1.3, "n": 2}
        made.append({"prompt": prompt, "max_tokens": draw.choice((5, 24, 60)), "logprobs": 3, "ignore_eos": True, **sampling})
    return made


def told(answer):
    """All that must not differ, as text."""
    return json.dumps(answer["choices"], sort_keys=True)


def streamed(events):
    texts = {}
    for event in events:
        for one in event["choices"]:
            texts[one["index"]] = texts.get(one["index"], "") + one["text"]
    return [texts[index] for index in sorted(texts)]


def ask_all(server, made):
    return [told(answer) for answer in together(*[lambda one=one: server.good(COMPLETIONS, **one) for one in made])]


def compare(want, got, how):
    for index, (expected, found) in enumerate(zip(want, got, strict=True)):
        assert expected == found, f"request {index} differs {how}:\n{expected[:1500]}\n{found[:1500]}"
