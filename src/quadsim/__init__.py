"""quadsim: quadrotors as a ROS 2 node graph in which any simulated part can be the real one.

Importing the package chooses the folder of the compiled kernels. Numba's cache does not notice
that a *called* function in another file changed, so the folder is keyed by the package's sources.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

__version__ = "0.1.0"


def _kernel_cache_dir() -> Path:
    """Folder of the compiled kernels of exactly these sources."""
    digest = hashlib.sha256(sys.version.encode())
    package = Path(__file__).parent
    for source in sorted(package.rglob("*.py")):
        if "nodes" in source.parts or "cli" in source.parts:
            continue  # no kernels there
        digest.update(str(source.relative_to(package)).encode())
        digest.update(source.read_bytes())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "quadsim" / f"kernels-{digest.hexdigest()[:16]}"


if "numba" not in sys.modules:  # numba reads the variable when it is first imported
    os.environ.setdefault("NUMBA_CACHE_DIR", str(_kernel_cache_dir()))
