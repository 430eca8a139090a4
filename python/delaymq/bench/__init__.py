"""Benches: each figure is measured next to the limit of the machine, in the same run.

Enter: names of benches and a size. Leave: one row for each case, as an object or as JSON. Read `row` first (a case, and
the row that is printed), then `cases` (one module for each family of rows), `interleaving` and `runs` (how rows are
measured), and `rust`, `child` and `served` (processes). The `benches` crate has the measurements in Rust.
"""

from delaymq.bench.runs import BENCHES, SCALED, planned, run

__all__ = ["BENCHES", "SCALED", "planned", "run"]
