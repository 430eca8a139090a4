"""The benches: each figure beside its limit, measured in the same run.

A module for each row of the product says which cases it has; `runs` interleaves the measurements and
makes the rows; `row` is what is printed. What is measured in Rust stands in the `benches` crate.
"""

from delaymq.bench.runs import BENCHES, SCALED, planned, run

__all__ = ["BENCHES", "SCALED", "planned", "run"]
