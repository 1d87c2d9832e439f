"""The nodes of the sensors that the table has a model of."""

from __future__ import annotations

from functools import partial
from typing import Any

from quadsim.ros.parts.ray_sensor import Carrier
from quadsim.ros.parts.sensor import Health, Messages, SensorKind, SensorNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors import SECOND, TABLE, TWICE, module_of
from quadsim.sensors.model import SensorModel, SimulatedSensor
from quadsim.wire.samples import SampleMessages


def kind_of(kind: str) -> SensorKind:
    """What the node of a kind of sensor publishes, by the table of sensors."""
    model: SensorModel = module_of(kind).MODEL

    def messages(node: SensorNode) -> Messages:
        return [
            (topics.SENSORS[topic.name], partial(_written, made))
            for topic, made in model.outputs(
                node.params, node.environment, node.frame(""), kind + SECOND * node.second
            )
        ]

    def health(node: SensorNode) -> Health:
        assert model.health is not None
        return model.health(node.params, node.sample)

    return SensorKind(
        kind,
        TABLE[kind].device,
        model.params_type,
        model.needs,
        partial(SimulatedSensor, model),
        messages,
        fixed=model.fixed,
        platform=Carrier if model.carried else None,
        health=health if model.health is not None else None,
        twice=kind in TWICE,
    )


def _written(messages: SampleMessages, sample: Any) -> bytes | None:
    """The message of a sample, if it has one."""
    return messages.payload(sample) if messages.exist is None or messages.exist(sample) else None


class sensor_module:
    """What a module of ``ros/nodes`` would give of the node of a kind of sensor."""

    def __init__(self, kind: str) -> None:
        self.make, self.main = entry_points(kind_of(kind).make)
