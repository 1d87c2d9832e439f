"""Packages that the core does without: which extra brings each, and what to say where it lacks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from quadsim.base.errors import InputError

#: Import name: name in the package index and the extra of quadsim that brings it.
EXTRAS = {
    "rclpy": ("rclpy", "ros"),
    "rerun": ("rerun-sdk", "view"),
    "pymavlink": ("pymavlink", "firmware"),
    "pyulog": ("pyulog", "firmware"),
    "serial": ("pyserial", ""),
    "allantools": ("allantools", "lab"),
    "pyarrow": ("pyarrow", "lab"),
    "rasterio": ("rasterio", "terrain"),
    "gymnasium": ("gymnasium", "gym"),
    "pettingzoo": ("pettingzoo", "gym"),
    "casadi": ("casadi", "mpc"),
    "numba_cuda": ("numba-cuda[cu12]", "cuda"),
    "onnx": ("onnx", "train"),
    "onnxruntime": ("onnxruntime", "train"),
    "distributed": ("dask", "cluster"),
}


def lacking(module: str) -> str:
    """What is missing and how to get it.

    Args:
        module: import name of the package or of one of its modules.
    """
    name = module.partition(".")[0]
    package, extra = EXTRAS.get(name, (name, ""))
    what = f"'quadsim[{extra}]'" if extra else package
    return f"needs {package}, which is not installed: pip install {what}"


def need(module: str, whose: object) -> Any:
    """Import what the core does without.

    Args:
        module: what to import.
        whose: file or feature that needs it, for the message.

    Raises:
        InputError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"{whose}: {lacking(module)}") from None
