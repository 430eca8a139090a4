"""A forecast as one self-contained HTML page: charts, the busiest minutes, the largest subjects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from html import escape
from itertools import islice

from delaymq.durations import begin_of
from delaymq.spark.jobs.forecast import Due, summed

BARS_MAX = 240
ROWS = 20
WIDTH, HEIGHT, LABELS = 960, 240, 24
MINUTES = (1, 5, 15, 60, 360, 1_440, 10_080, 43_200, 525_600)
"""The possible widths of a bar, in minutes."""

STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em auto; max-width: 62em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 }
td, th { padding: .2em 1em .2em 0; text-align: left; font-variant-numeric: tabular-nums }
td + td, th + th { text-align: right }
rect { fill: #2864a0 }
text { font-size: 11px; fill: #555 }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818 }
  rect { fill: #6aa9e8 }
  text { fill: #aaa }
}
"""


def page(found: Sequence[Due], *, title: str) -> str:
    """The page.

    Args:
        found: The rows of a forecast, as `told` returns them.
        title: The heading.
    """
    messages, size = sum(one.messages for one in found), sum(one.bytes for one in found)
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{messages:,} messages with {size:,} bytes are due.</p>"]
    if found:
        minutes = islice(summed(found, lambda one: one.start).items(), ROWS)
        hottest = _table("The hottest minutes (UTC)", ((_words(start), *sums) for start, sums in minutes))
        parts += [_chart(found, "messages", 0), _chart(found, "bytes", 1), hottest, _largest(found)]
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _chart(found: Sequence[Due], what: str, of: int) -> str:
    """Bars of the smallest width that gives at most `BARS_MAX`; `of` selects messages or bytes."""
    first, last = min(one.start for one in found), max(one.start for one in found)
    minutes = next(
        (width for width in MINUTES if (last - first) / timedelta(minutes=width) < BARS_MAX - 1), MINUTES[-1]
    )
    width = timedelta(minutes=minutes)
    bars = {start: sums[of] for start, sums in summed(found, lambda one: begin_of(one.start, width)).items()}
    begin, end = min(bars), max(bars)
    most, each = max(bars.values()), WIDTH / ((end - begin) // width + 1)
    drawn = [
        f'<rect x="{(start - begin) // width * each:.2f}" y="{HEIGHT - height:.1f}" width="{max(each - 1, 0.5):.2f}" '
        f'height="{height:.1f}"><title>{_words(start)}: {value:,}</title></rect>'
        for start, value in sorted(bars.items())
        for height in [max(value / max(most, 1) * HEIGHT, 1)]
    ]
    labels = (
        f'<text x="0" y="{HEIGHT + 16}">{_words(begin)}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 16}" text-anchor="end">{_words(end)}</text>'
    )
    words = f"{what} due, by {_span(minutes)}; the highest bar is {most:,}"
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT + LABELS}" role="img" aria-label="{escape(words)}">'
    return f"<h2>{escape(words)}</h2>\n{svg}{''.join(drawn)}{labels}</svg>"


def _largest(found: Sequence[Due]) -> str:
    subjects = summed(found, lambda one: one.subject)
    heading = f"The largest of {len(subjects):,} subjects" if len(subjects) > ROWS else "Subjects"
    return _table(heading, ((subject, *sums) for subject, sums in islice(subjects.items(), ROWS)))


def _table(heading: str, rows: Iterable[tuple[str, int, int]]) -> str:
    lines = [f"<tr><td>{escape(name)}</td><td>{count:,}</td><td>{size:,}</td></tr>" for name, count, size in rows]
    head = "<tr><th></th><th>messages</th><th>bytes</th></tr>"
    return f"<h2>{escape(heading)}</h2>\n<table>{head}{''.join(lines)}</table>"


def _words(start: datetime) -> str:
    return f"{start:%Y-%m-%d %H:%M}"


def _span(minutes: int) -> str:
    for size, word in ((1_440, "day"), (60, "hour"), (1, "minute")):
        if minutes % size == 0:
            return word if minutes == size else f"{minutes // size} {word}s"
    raise AssertionError(minutes)
