"""``python -m quadsim.ros NODE --ros-args ...``: one node, where no script is on the path."""

from __future__ import annotations

import sys

from quadsim.ros import executables

if __name__ == "__main__":
    sys.argv[0] = sys.argv.pop(1)
    getattr(executables, sys.argv[0])()
