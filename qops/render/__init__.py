"""Report in, text out: one module a format, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qops.report import Report

FORMATS = {"table": "qops.render.table", "json": "qops.render.json"}


def render(report: Report, name: str) -> str:
    """Return `report` as text in format `name`, one of FORMATS, ending with a newline unless empty."""
    text: str = import_module(FORMATS[name]).render(report)
    return text
