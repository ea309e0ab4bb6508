"""What a queue needs in its schema: tables and indexes as data, the difference to what is there, and its repair."""

from qops.schema.init import init
from qops.schema.script import report

__all__ = ["init", "report"]
