"""What operators ask of a store, each made by tasks that count where the bytes are."""

from delaymq.spark.jobs.archive import Archived, archive, archived
from delaymq.spark.jobs.audit import STUCK_AFTER, Audit, Finding, audit, findings_frame
from delaymq.spark.jobs.forecast import Due, forecast, summed, told
from delaymq.spark.jobs.forecast_page import page

__all__ = [
    "STUCK_AFTER",
    "Archived",
    "Audit",
    "Due",
    "Finding",
    "archive",
    "archived",
    "audit",
    "findings_frame",
    "forecast",
    "page",
    "summed",
    "told",
]
