"""Logs that were exported as a table, as consoles of clouds do it: one column of the CSV file holds the lines."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

_OF_THE_LINES = frozenset(
    {"message", "@message", "log", "textpayload"}
)  # of CloudWatch, its Insights, Elastic, Google Cloud
_BEGINS_AN_ENTRY = re.compile(r'"?(?:\d[\d:.TZ /+-]{7,40}|[A-Z][a-z]{2} \d\d?, \d{4} @ [\d:.]{5,20})"?,')


@dataclass(frozen=True, slots=True)
class CsvExport:
    """A table whose rows begin with a time."""

    column: int
    """Which column holds the lines, from 0."""

    def line(self, text: str) -> str:
        """What the job wrote in this line of the file: of a row the message, of a message's further lines the line."""
        if _BEGINS_AN_ENTRY.match(text):
            fields = _fields(text)
            if len(fields) > self.column:
                return fields[self.column]
        ends = text.count('"') % 2 == 1  # the marks within a message are doubled
        return (text.removesuffix('"') if ends else text).replace('""', '"')


def csv_export(first_line: str) -> CsvExport | None:
    """The table that this first line of a file is the head of; None where it is none of a log."""
    names = [name.strip().lower() for name in _fields(first_line.strip("\ufeff\r\n"))]
    columns = [at for at, name in enumerate(names) if name in _OF_THE_LINES]
    return CsvExport(columns[0]) if len(names) > 1 and columns else None


def _fields(text: str) -> list[str]:
    """The fields of one line; none of one that is no CSV. A quotation mark that nothing closes opens the last field."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []
