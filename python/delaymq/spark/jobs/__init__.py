"""What operators ask of a store, each made by tasks that count where the bytes are."""

from delaymq.spark.jobs.forecast import Due, forecast, summed, told
from delaymq.spark.jobs.forecast_page import page

__all__ = ["Due", "forecast", "page", "summed", "told"]
