"""The messages and methods of the API, from the descriptors that the package ships: no generated code."""

from __future__ import annotations

from importlib import resources
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FRONTIER: Final = "urlfrontier.URLFrontier"
HEALTH: Final = "grpc.health.v1.Health"
SERVICES: Final = (FRONTIER, HEALTH)

_pool: Final = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(
    resources.files("streamsched.frontier").joinpath("messages.binpb").read_bytes()
).file:
    _pool.Add(_file)


def message(name: str) -> Any:
    """Return the class of the message with this full name.

    >>> message("urlfrontier.Long")(value=7).value
    7
    """
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(name))


class Method(NamedTuple):
    """A method of a service: the classes of its messages; ``name``: without the service's."""

    name: str
    asked: Any
    answer: Any


METHODS: Final = {
    f"/{service}/{method.name}": Method(
        method.name,
        message_factory.GetMessageClass(method.input_type),
        message_factory.GetMessageClass(method.output_type),
    )
    for service in SERVICES
    for method in _pool.FindServiceByName(service).methods
}
