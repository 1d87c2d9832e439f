"""``python -m quadsim.ros NODE --ros-args ...``: one node, where no script is on the path."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    node = sys.argv.pop(1)
    import_module(f"quadsim.ros.nodes.{node}").main()
