"""How services of the package simulation_interfaces are offered and answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from quadsim.base.errors import InputError
from quadsim.ros.runtime.packages import is_installed
from quadsim.ros.runtime.topics import message_class

PACKAGE = "simulation_interfaces"
#: Longest message of an answer, in characters.
LONGEST_WORDS = 500
#: Fills an answer to a request; what it returns is told besides RESULT_OK.
Answer = Callable[[Any, Any], str | None]


class RefusedError(InputError):
    """A request that is not fulfilled.

    Args:
        code: constant of the service's response or of Result.
        words: why.
    """

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class Interfaces:
    """Offers services as ``/sim/...``, and knows which features they make.

    Attributes:
        features: names of constants of SimulatorFeatures.
    """

    def __init__(self, node: Any) -> None:
        self._node = node
        self._installed = is_installed(f"{PACKAGE}/srv/GetSimulatorFeatures")
        self.features: list[str] = []

    @staticmethod
    def message(name: str) -> Any:
        """Class of a message."""
        return message_class(f"{PACKAGE}/msg/{name}")

    def offer(self, kind: str, answer: Answer, *features: str) -> None:
        """Offer a service, if the package is installed and its version has it."""
        if not self._installed:
            return
        try:
            service = message_class(f"{PACKAGE}/srv/{kind}")
        except ImportError:
            return
        self.features += features

        def asked(request: Any, response: Any) -> Any:
            try:
                self.say(response, "RESULT_OK", answer(request, response) or "")
            except RefusedError as refused:
                self.say(response, refused.code, str(refused))
            except InputError as error:
                self.say(response, "RESULT_OPERATION_FAILED", str(error))
            return response

        name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
        self._node.create_service(service, f"/sim/{name}", asked)

    def say(self, response: Any, code: str, words: str = "") -> None:
        """Write a result: a constant of the response or of Result; an older version may lack it."""
        if not hasattr(response, "result"):
            return
        result = self.message("Result")
        of = next((each for each in (type(response), result) if hasattr(each, code)), None)
        number = getattr(of, code) if of else result.RESULT_OPERATION_FAILED
        response.result.result, response.result.error_message = number, words[:LONGEST_WORDS]
