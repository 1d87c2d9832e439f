"""A radio link: latency with jitter, and loss; what is sent first arrives first."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import numpy as np

from quadsim.base.parameters import Spec

Message = TypeVar("Message")


@dataclass(frozen=True)
class LinkParams:
    """One direction of the link between the vehicle and the computer that flies it."""

    latency_s: Annotated[float, Spec("mean, from sending to hearing", "s", ge=0.0, le=2.0)] = 0.03
    jitter_s: Annotated[
        float, Spec("standard deviation of the latency, cut at three", "s", ge=0.0, le=0.5)
    ] = 0.008
    loss: Annotated[float, Spec("share of the messages that are lost", "1", ge=0.0, le=1.0)] = 0.05


class Link(Generic[Message]):
    """Messages on their way.

    A message overtakes none: one that is late makes those behind it late as well, as a queue does.

    Attributes:
        cut: while true, everything that is sent is lost.
        sent, lost: how many messages were.
    """

    def __init__(self, params: LinkParams, generator: np.random.Generator) -> None:
        self._params, self._generator = params, generator
        self._queue: deque[tuple[int, Message]] = deque()
        self._newest_ns = 0
        self.cut = False
        self.sent = self.lost = 0

    def send(self, now_ns: int, message: Message) -> None:
        """Put a message on its way, or lose it."""
        params = self._params
        chance, late = float(self._generator.random()), float(self._generator.standard_normal())
        self.sent += 1
        if self.cut or chance < params.loss:
            self.lost += 1
            return
        delay_s = params.latency_s + params.jitter_s * min(max(late, -3.0), 3.0)
        arrival_ns = now_ns + round(max(delay_s, 0.0) * 1e9)
        self._newest_ns = max(self._newest_ns, arrival_ns)
        self._queue.append((self._newest_ns, message))

    def receive(self, now_ns: int) -> list[Message]:
        """Messages that have arrived since the last call, in the order in which they were sent."""
        arrived = []
        while self._queue and self._queue[0][0] <= now_ns:
            arrived.append(self._queue.popleft()[1])
        return arrived
