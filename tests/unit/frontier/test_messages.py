"""The shipped descriptors are those of the proto files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from streamsched.frontier import messages


def test_the_shipped_descriptors_are_those_of_the_proto_files(tmp_path: Path) -> None:
    folder, made = resources.files("streamsched.frontier"), tmp_path / "made"
    words = ["protoc", f"-I{folder}", f"--descriptor_set_out={made}", "urlfrontier.proto", "health.proto"]
    assert protoc.main(words) == 0
    found, shipped = (
        descriptor_pb2.FileDescriptorSet.FromString(raw)
        for raw in (made.read_bytes(), folder.joinpath("messages.binpb").read_bytes())
    )
    assert found == shipped


def test_an_item_is_the_bytes_of_the_wire() -> None:
    item = messages.message("urlfrontier.URLItem")(ID="i")
    item.known.info.url = "u"
    item.known.info.metadata["m"].values.append("v")
    item.known.refetchable_from_date = 1
    assert item.SerializeToString() == b"\x12\x11\x0a\x0d\x0a\x01u\x1a\x08\x0a\x01m\x12\x03\x0a\x01v\x10\x01\x1a\x01i"
