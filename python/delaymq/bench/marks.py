"""Marks: absolute bounds for the figures of a row, whatever the machine's limit is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mark:
    """A bound for one figure of a row.

    Attributes:
        figure: `"value"`, `"ratio"` for the share of the limit, or a name in `detail`.
        bound: The bound, in the unit of that figure.
        is_floor: True for a minimum, False for a maximum.
    """

    figure: str
    bound: float
    is_floor: bool

    def judged(self, figures: Mapping[str, Any]) -> Judged:
        """Compares the figure with the bound.

        Args:
            figures: All figures of the row, by name.

        Raises:
            KeyError: There is no such figure.
        """
        found = float(figures[self.figure])
        return Judged(self, found, found >= self.bound if self.is_floor else found <= self.bound)


@dataclass(frozen=True)
class Judged:
    """A mark, and the figure that was measured."""

    mark: Mark
    found: float
    is_met: bool

    def words(self) -> str:
        """The mark in words: p99_ms at most 10."""
        figure = "the figure" if self.mark.figure == "value" else self.mark.figure
        bound = f"{self.mark.bound:,.0f}" if self.mark.bound >= 1000 else f"{self.mark.bound:g}"  # noqa: PLR2004 - digits
        return f"{figure} at {'least' if self.mark.is_floor else 'most'} {bound}"

    def told(self) -> dict[str, Any]:
        """The mark as a row shows it: `figure`, `at_least` or `at_most`, `met`."""
        bound = "at_least" if self.mark.is_floor else "at_most"
        return {"figure": self.mark.figure, bound: self.mark.bound, "met": self.is_met}


def at_least(**bounds: float) -> tuple[Mark, ...]:
    """Marks of figures that must not be lower, by their names."""
    return tuple(Mark(figure, bound, is_floor=True) for figure, bound in bounds.items())


def at_most(**bounds: float) -> tuple[Mark, ...]:
    """Marks of figures that must not be higher, by their names."""
    return tuple(Mark(figure, bound, is_floor=False) for figure, bound in bounds.items())
