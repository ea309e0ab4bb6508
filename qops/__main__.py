"""`python -m qops` and the program `qops`."""

from __future__ import annotations

import sys

from qops.cli.process import hide_password


def main() -> None:
    """Run the command line and exit with its code; the process title is clean before anything slow is loaded."""
    hide_password(sys.argv[1:])
    try:
        from qops.cli.main import main as run_process  # noqa: PLC0415 - after the title

        run_process()
    except KeyboardInterrupt:  # while it was still loading
        sys.exit(130)


if __name__ == "__main__":
    main()
