"""quadsim: quadrotors as a ROS 2 node graph in which any simulated part can be the real one.

Importing the package chooses the folder of the compiled kernels, and how they are known to be
those of the sources: see :mod:`quadsim.base.kernel_cache`.
"""

from __future__ import annotations

from quadsim.base.kernel_folder import choose_folder

__version__ = "0.1.0"

choose_folder()
