"""``python -m quadsim.cli``: the command, where no script is on the path."""

from quadsim.cli.main import main

main()
