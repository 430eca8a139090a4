"""Simulation: how late each group will be, found by running a copy of a store ahead of time.

Enter: the folder of a store, the time to simulate until, and the rates of its groups. Leave: one row for each
group, with its lateness and backlog (`Predicted`). Read `simulation` first (the clock that is advanced), then
`store_copy` (the copy), `consumers` (the model of a group) and `recurrence_limit` (the bound on series).
"""

from delaymq.simulate.consumers import Predicted
from delaymq.simulate.recurrence_limit import RECURRING_MAX
from delaymq.simulate.simulation import simulate

__all__ = ["RECURRING_MAX", "Predicted", "simulate"]
