"""What will be late tomorrow: the pending schedule of a copy of a store, lived through before it happens.

`copying` makes the copy, `consumers` is the model of who consumes, `recurred` bounds what series send,
`running` turns the clock.
"""

from delaymq.simulate.consumers import Predicted
from delaymq.simulate.recurrence_limit import RECURRING_MAX
from delaymq.simulate.simulation import simulate

__all__ = ["RECURRING_MAX", "Predicted", "simulate"]
