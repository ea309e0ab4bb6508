"""`python -m qops` is `qops`."""

from qops.cli.main import main

main()
