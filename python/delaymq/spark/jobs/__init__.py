"""Jobs for operators: audit, archive, forecast, load and rebuild, by tasks that aggregate close to the data.

Enter: a session, and the options of a store. Leave: results of the job, and DataFrames of them. Each job has a module
of its own name; `accounting`, `tally`, `discrepancies` and the two `retry_…` modules are parts of `audit`,
`archive_folder` is part of `archive`, and `forecast_page` writes a forecast as HTML.
"""

from delaymq.spark.jobs.archive import Archived, archive, archived
from delaymq.spark.jobs.audit import STUCK_AFTER, Audit, Finding, audit, findings_frame
from delaymq.spark.jobs.forecast import Due, forecast, summed, told
from delaymq.spark.jobs.forecast_page import page
from delaymq.spark.jobs.load import BulkLoad, Format, StoreLoad, load, rows_of, stores_frame
from delaymq.spark.jobs.rebuild import Rebuild, pieces_frame, rebuild

__all__ = [
    "STUCK_AFTER",
    "Archived",
    "Audit",
    "BulkLoad",
    "Due",
    "Finding",
    "Format",
    "Rebuild",
    "StoreLoad",
    "archive",
    "archived",
    "audit",
    "findings_frame",
    "forecast",
    "load",
    "page",
    "pieces_frame",
    "rebuild",
    "rows_of",
    "stores_frame",
    "summed",
    "told",
]
