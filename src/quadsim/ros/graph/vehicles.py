"""Names of the vehicles."""

from __future__ import annotations


def vehicle_namespaces(count: int) -> list[str]:
    """``/quad``, or ``/quad1``, ``/quad2``, ... where there are several."""
    return ["/quad"] if count == 1 else [f"/quad{i + 1}" for i in range(count)]


def frame_prefix(namespace: str) -> str:
    """What goes before a vehicle's frame names: nothing where there is one vehicle."""
    name = namespace.strip("/")
    return "" if name in ("", "quad") else f"{name}/"
