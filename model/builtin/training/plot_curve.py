"""Draws the training log as an SVG (losses and recall accuracy against tokens seen) and prints a table for the model card."""
import argparse
import json
import pathlib

WIDTH, HEIGHT, MARGIN = 720, 300, 48
SERIES = [("english", "#1f6feb", "English loss (nats a token)"), ("value", "#d1242f", "loss on recalled values"),
          ("accuracy", "#1a7f37", "accuracy on recalled values (right axis, 0 to 1)")]  # fmt: skip
TOP_LOSS = 8.0


def polyline(entries, name, colour):
    last = entries[-1]["tokens"]
    points = []
    for entry in entries:
        if name in entry:
            share = entry[name] if name == "accuracy" else min(1, entry[name] / TOP_LOSS)
            x = MARGIN + (WIDTH - 2 * MARGIN) * entry["tokens"] / last
            points.append(f"{x:.1f},{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share:.1f}")
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(points)}"/>'


def text(x, y, content, anchor="start", colour="#57606a"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{content}</text>'


def draw(entries):
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']  # fmt: skip
    for step in range(5):
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * step / 4
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y}" y2="{y}" stroke="#d0d7de"/>')
        parts += [text(MARGIN - 6, y + 4, f"{TOP_LOSS * step / 4:.0f}", "end"), text(WIDTH - MARGIN + 6, y + 4, f"{step / 4:.2f}")]
    stage_began = {}
    for entry in entries:
        stage_began.setdefault(entry["length"], entry["tokens"])
    for length, tokens in stage_began.items():
        x = MARGIN + (WIDTH - 2 * MARGIN) * tokens / entries[-1]["tokens"]
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{MARGIN}" y2="{HEIGHT - MARGIN}" stroke="#8c959f" stroke-dasharray="3 3"/>')
        parts.append(f'<text transform="translate({x - 3:.1f},{HEIGHT - MARGIN - 4}) rotate(-90)" fill="#57606a">{length}</text>')
    parts += [polyline(entries, name, colour) for name, colour, _ in SERIES]
    for index, (_, colour, label) in enumerate(SERIES):
        parts.append(text(MARGIN + index * 200, MARGIN - 16, label, colour=colour))
    parts.append(text(WIDTH - MARGIN, HEIGHT - 12, f"{entries[-1]['tokens'] / 1e6:.1f} M tokens; dashed: rows grow to so many tokens", "end"))
    return "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the SVG to write")
    parser.add_argument("--table-rows", type=int, default=12)
    options = parser.parse_args()
    entries = [json.loads(line) for line in options.log.read_text().splitlines()]
    every = max(1, len(entries) // 150)
    options.out.write_text(draw(entries[:-1:every] + entries[-1:]))
    print("| step | tokens | row length | English loss | value loss | value accuracy |\n|---|---|---|---|---|---|")
    for index in range(options.table_rows):
        entry = entries[round(index * (len(entries) - 1) / (options.table_rows - 1))]
        accuracy = f"{entry['accuracy']:.3f}" if "accuracy" in entry else "-"
        print(f"| {entry['step']} | {entry['tokens'] / 1e6:.2f} M | {entry['length']} | {entry['english']:.2f} | {entry['value']:.3f} | {accuracy} |")


if __name__ == "__main__":
    main()
