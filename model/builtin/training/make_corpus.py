"""Writes the English texts, one paragraph a line, from two Debian packages whose texts are in the public domain.

r-cran-janeaustenr   six novels by Jane Austen (read with Rscript)
sword-text-web       the World English Bible (a SWORD zText module: zlib blocks of OSIS markup)

The last part of each text is held out: train.txt and heldout.txt never share a paragraph.
"""
import argparse
import pathlib
import re
import struct
import subprocess
import zlib

AUSTEN_SCRIPT = "library(janeaustenr); writeLines(paste(austen_books()$book, austen_books()$text, sep='\\t'))"
WEB_MODULE = pathlib.Path("/usr/share/sword/modules/texts/ztext/engWEB2015eb")
HELDOUT_SHARE = 0.03
PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "–": "-", "\u00a0": " ", "…": "..."})


def tidy(paragraph):
    paragraph = paragraph.translate(PLAIN).replace("_", "")
    paragraph = re.sub(r"\s+", " ", paragraph).strip()
    return paragraph.encode("ascii", "ignore").decode("ascii")


def is_prose(paragraph):
    return len(paragraph) >= 40 and paragraph[-1] in ".!?\"'" and not paragraph.startswith("CHAPTER")


def austen_paragraphs():
    lines = subprocess.run(["Rscript", "-e", AUSTEN_SCRIPT], check=True, capture_output=True, text=True).stdout
    books = {}
    for line in lines.splitlines():
        book, _, text = line.partition("\t")
        books.setdefault(book, []).append(text.strip())
    for text in books.values():
        paragraphs = [tidy(paragraph) for paragraph in "\n".join(text).split("\n\n")]
        yield [paragraph for paragraph in paragraphs if is_prose(paragraph)]


def web_books(testament):
    index = (WEB_MODULE / f"{testament}.bzs").read_bytes()
    blocks = (WEB_MODULE / f"{testament}.bzz").read_bytes()
    for offset, size, _ in struct.iter_unpack("<III", index[: len(index) // 12 * 12]):
        yield zlib.decompress(blocks[offset : offset + size]).decode("utf-8")


def web_paragraphs():
    for testament in ("ot", "nt"):
        for book in web_books(testament):
            book = re.sub(r"<(note|title)\b.*?</\1>", "", book, flags=re.S)
            book = re.sub(r'<div sID="[^"]*" type="x-p"/>|<lg [^>]*>', "\n\n", book)
            book = re.sub(r"<chapter [^>]*>|<l [^>]*>|<div [^>]*>", " ", book)
            paragraphs = [tidy(re.sub(r"<[^>]*>", "", paragraph)) for paragraph in book.split("\n\n")]
            yield [paragraph for paragraph in paragraphs if is_prose(paragraph)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for <source>.train.txt and <source>.heldout.txt")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, books in (("austen", austen_paragraphs()), ("web", web_paragraphs())):
        train, heldout = [], []
        for paragraphs in books:
            cut = len(paragraphs) - round(len(paragraphs) * HELDOUT_SHARE)
            train += paragraphs[:cut]
            heldout += paragraphs[cut:]
        for part, paragraphs in (("train", train), ("heldout", heldout)):
            (out / f"{name}.{part}.txt").write_text("\n".join(paragraphs) + "\n")
            print(f"{name}.{part}: {len(paragraphs)} paragraphs, {sum(map(len, paragraphs))} characters")


if __name__ == "__main__":
    main()
