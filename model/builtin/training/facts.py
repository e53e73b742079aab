"""Documents whose questions can be answered from their context alone: facts scattered in English, then questions.

  value fact   The red fox holds 4821.            value: a number of 2 to 6 digits, or a word
  link fact    The red fox follows the tall owl.
  single       What does the red fox hold?                          The red fox holds 4821.
  two_hop      What does the one the red fox follows hold?          The tall owl holds 4821.
  link         Whom does the red fox follow?                        The red fox follows the tall owl.

A key is an adjective and a noun. In a document keys share tokens on purpose: a few adjectives and nouns make many keys.
"""
import dataclasses
import re

ADJECTIVES = """red blue green black white gold silver old young tall small large great little happy quiet proud brave
kind wise cold warm dark bright poor rich strong weak sweet gentle clever honest noble pale grey brown deep high low long
short new late strange plain holy fair lost""".split()
NOUNS = """fox owl wolf bear lion horse dog cat bird fish lamb goat bull deer crow dove eagle king queen prince lady lord
judge priest guard captain doctor baker farmer sailor soldier servant master sister brother mother father uncle aunt
cousin neighbour friend stranger child boy girl man woman shepherd prophet merchant tailor hunter miller painter singer
poet writer teacher nurse cook maid guest widow lawyer clerk knight monk pilot rider porter colonel general rector bishop
duke heir hero nephew niece host enemy mason smith weaver potter archer keeper scribe student raven swan hawk snake
frog""".split()

QUESTIONS = {
    "single": "What does the {key} hold?",
    "two_hop": "What does the one the {key} follows hold?",
    "link": "Whom does the {key} follow?",
}


@dataclasses.dataclass
class Document:
    pieces: list  # sentences, facts and English, in their order
    facts: int
    questions: list  # of (kind, question, answer)
    restated: list  # of value and link facts, drawn with replacement


def chat_question(question):
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


class FactMaker:
    """Draws documents. `words`: the words that values may be; `sentences`: the English between facts."""

    def __init__(self, rng, words, sentences):
        self.rng, self.words, self.sentences = rng, words, sentences

    def value(self):
        if self.rng.random() < 0.35:
            return self.rng.choice(self.words)
        digits = self.rng.choices([2, 3, 4, 5, 6], weights=[25, 25, 25, 12, 13])[0]
        return str(self.rng.randrange(10 ** (digits - 1), 10**digits))

    def keys(self, count):
        """Distinct keys from about 2 * sqrt(count) adjectives and nouns each, so that most tokens are in several keys."""
        side = min(len(ADJECTIVES), max(3, round(2 * count**0.5)))
        adjectives, nouns = self.rng.sample(ADJECTIVES, side), self.rng.sample(NOUNS, side)
        grid = [f"{adjective} {noun}" for adjective in adjectives for noun in nouns]
        return self.rng.sample(grid, min(count, len(grid)))

    def document(self, token_count, count_tokens, *, english_share, question_count, link_share=0.2):
        """A context of about token_count tokens; `count_tokens` maps a text to its number of tokens."""
        english, english_tokens = [], 0
        while english_tokens < token_count * english_share - 20:
            english.append(self.rng.choice(self.sentences))
            english_tokens += count_tokens(" " + english[-1])
        keys = self.keys(token_count // 6 + 2)
        holds, follows, facts, fact_tokens = {}, {}, [], 0
        while not facts or (fact_tokens < token_count - english_tokens - 4 and len(holds) < len(keys)):
            key = keys[len(holds)]
            holds[key] = self.value()
            facts.append(f"The {key} holds {holds[key]}.")
            fact_tokens += count_tokens(" " + facts[-1])
            if len(holds) > 1 and self.rng.random() < link_share / (1 - link_share):
                # From the newest key to any other: its value fact may come later or earlier, both are shuffled.
                source = self.rng.choice([known for known in holds if known not in follows])
                target = self.rng.choice([known for known in holds if known != source])
                follows[source] = target
                facts.append(f"The {source} follows the {target}.")
                fact_tokens += count_tokens(" " + facts[-1])
        pieces = facts + english
        self.rng.shuffle(pieces)
        restated = [self.rng.choice(facts) for _ in range(question_count)]
        questions = [self.question(holds, follows) for _ in range(question_count)]
        return Document(pieces, len(facts), questions, restated)

    def question(self, holds, follows):
        kind = self.rng.choices(["single", "two_hop", "link"], weights=[60, 25, 15])[0] if follows else "single"
        key = self.rng.choice(list(holds if kind == "single" else follows))
        if kind == "link":
            answer = f"The {key} follows the {follows[key]}."
        else:
            holder = key if kind == "single" else follows[key]
            answer = f"The {holder} holds {holds[holder]}."
        return kind, QUESTIONS[kind].format(key=key), answer


def split_sentences(paragraphs, longest=160):
    """Sentences of 20 characters to `longest` that end in a full stop and carry no quotation mark or digit."""
    found = []
    for paragraph in paragraphs:
        for sentence in re.split(r"(?<=[.!?])\s+", paragraph):
            if 20 <= len(sentence) <= longest and re.fullmatch(r"[A-Z][A-Za-z ,;:'-]*(?<!Mr|Dr|St)(?<!Mrs)\.", sentence):
                found.append(sentence)
    return found


def value_words(paragraphs):
    """Lower-case words of 4 to 9 letters, seen at least 60 times, that no key has: in order of the alphabet."""
    counts = {}
    for paragraph in paragraphs:
        for word in re.findall(r"(?<= )[a-z]{4,9}(?= )", paragraph):
            counts[word] = counts.get(word, 0) + 1
    taken = {*ADJECTIVES, *NOUNS, "holds", "hold", "follows", "follow"}
    return sorted(word for word, count in counts.items() if count >= 60 and word not in taken)
