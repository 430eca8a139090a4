"""What will be late tomorrow: the pending schedule of a copy of a store, lived through before it happens.

`copying` makes the copy, `consumers` is the model of who consumes, `running` turns the clock.
"""

from delaymq.simulate.consumers import Predicted
from delaymq.simulate.running import simulate

__all__ = ["Predicted", "simulate"]
