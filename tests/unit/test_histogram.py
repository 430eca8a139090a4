from __future__ import annotations

from delaymq.demo.summary import bars, percentile


def test_a_percentile_is_a_value_that_was_seen() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert percentile(ordered, 0.5) == 50
    assert percentile(ordered, 0.99) == 99
    assert percentile(ordered, 0.999) == 100
    assert percentile(ordered, 1.0) == 100
    assert percentile([3.0], 0.5) == 3
    assert percentile([], 0.5) == 0


def test_bars_count_every_value_once_from_the_first_filled_bucket_to_the_last() -> None:
    lines = bars([0.7, 0.9, 1.0, 3.0, 3.0, 80_000.0], (0.5, 1, 2, 5, 10))
    counts = [int(line.split("ms")[1].split()[0]) for line in lines]
    assert counts == [3, 0, 2, 0, 1]
    assert lines[0].lstrip().startswith("<= 1 ms")
    assert lines[-1].lstrip().startswith("> 10 ms")
    assert bars([]) == []
