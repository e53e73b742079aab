"""Byte-level BPE as GPT-2 has it, and the Hugging Face files that describe it."""
import functools
import heapq
import json

import regex

SPLIT = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_symbols():
    """Byte -> printable character, the mapping that GPT-2 chose."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    symbols = {byte: chr(byte) for byte in kept}
    for byte in range(256):
        if byte not in symbols:
            symbols[byte] = chr(256 + len(symbols) - len(kept))
    return symbols


SYMBOLS = byte_symbols()
BYTES = {symbol: byte for byte, symbol in SYMBOLS.items()}


def learn_merges(word_counts, piece_count):
    """The merges, most frequent pair first, that make piece_count new pieces, from each pre-token's (a str's) count."""
    words = [[SYMBOLS[byte] for byte in word.encode("utf-8")] for word in word_counts]
    counts = list(word_counts.values())
    pair_counts, pair_words = {}, {}
    for index, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pair_counts[pair] = pair_counts.get(pair, 0) + counts[index]
            pair_words.setdefault(pair, set()).add(index)
    heap = [(-count, pair) for pair, count in pair_counts.items()]
    heapq.heapify(heap)
    merges, made = [], set()
    while len(made) < piece_count and heap:
        count, pair = heapq.heappop(heap)
        current = pair_counts.get(pair, 0)
        if -count != current:  # stale: the pair's count has changed since it was pushed
            if current > 0:
                heapq.heappush(heap, (-current, pair))
            continue
        merges.append(pair)
        made.add(pair[0] + pair[1])
        for index in pair_words.pop(pair):
            word = words[index]
            for old in zip(word, word[1:]):
                pair_counts[old] -= counts[index]
            words[index] = word = merge_pair(word, pair)
            for new in zip(word, word[1:]):
                known = pair_counts.get(new, 0)
                pair_counts[new] = known + counts[index]
                members = pair_words.setdefault(new, set())
                if index not in members:
                    members.add(index)
                    heapq.heappush(heap, (-pair_counts[new], new))
        pair_counts.pop(pair, None)
    return merges


def merge_pair(word, pair):
    merged, index = [], 0
    while index < len(word):
        if index + 1 < len(word) and (word[index], word[index + 1]) == pair:
            merged.append(word[index] + word[index + 1])
            index += 2
        else:
            merged.append(word[index])
            index += 1
    return merged


class Tokenizer:
    """Text to token ids and back. A special's text in the input is that special's id, as in Hugging Face's encode."""

    def __init__(self, merges):
        self.merges = [tuple(merge) for merge in merges]
        # Two merges may make one piece: it keeps its first id.
        pieces = list(dict.fromkeys([*SYMBOLS.values(), *(first + second for first, second in self.merges)]))
        self.vocab = {piece: index for index, piece in enumerate(pieces)}
        self.specials = {text: len(self.vocab) + index for index, text in enumerate(SPECIALS)}
        self.pieces = pieces + SPECIALS
        self.ranks = {merge: rank for rank, merge in enumerate(self.merges)}
        self.special_split = regex.compile("(" + "|".join(map(regex.escape, SPECIALS)) + ")")
        self.encode_word = functools.lru_cache(maxsize=1 << 18)(self._encode_word)

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            merges = json.load(file)["model"]["merges"]
        return cls(merge.split(" ") for merge in merges)

    def _encode_word(self, word):
        symbols = [SYMBOLS[byte] for byte in word.encode("utf-8")]
        while len(symbols) > 1:
            best = min(zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            symbols = merge_pair(symbols, best)
        return tuple(self.vocab[symbol] for symbol in symbols)

    def encode(self, text):
        ids = []
        for part in self.special_split.split(text):
            if part in self.specials:
                ids.append(self.specials[part])
            else:
                for word in SPLIT.findall(part):
                    ids.extend(self.encode_word(word))
        return ids

    def decode(self, ids):
        data = b""
        for index in ids:
            piece = self.pieces[index]
            data += piece.encode() if piece in self.specials else bytes(BYTES[symbol] for symbol in piece)
        return data.decode("utf-8", "replace")
