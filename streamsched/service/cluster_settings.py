"""Settings of a cluster host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamsched.errors import SettingsError
from streamsched.numerics.durations import parse_duration
from streamsched.service.http_settings import split_address

_NAMES: Final = 249  # characters of a topic's name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """A host of a cluster. Durations are ``"10s"`` or seconds.

    - ``calls``: the topic for the calls of all shards, made if it does not exist;
    - ``images``: where the images of all shards are kept: a folder that all hosts have, or s3://BUCKET/PREFIX;
    - ``advertise``: HOST:PORT at which the other hosts reach this one, by default that of ``http.address``;
    - ``token``: file with the token by which hosts call each other, if there are tokens: of all three scopes;
    - ``give_up``: the longest time to save a partition that goes to another host, which otherwise replays more;
    - ``answer``: how long a shard may take to offer pages; without it, a batch is made of the others' pages.
    """

    calls: str | None = None
    images: str | None = None
    advertise: str | None = None
    token: Path | None = None
    give_up: str | float = "5s"
    answer: str | float = "500ms"

    def __post_init__(self) -> None:
        if self.calls is not None and (not self.calls or len(self.calls) > _NAMES or "/" in self.calls):
            raise SettingsError("calls", self.calls, "the name of a topic on the brokers of the source")
        if self.images == "":
            raise SettingsError("images", self.images, "a folder, or s3://BUCKET/PREFIX")
        if self.advertise is not None:
            split_address(self.advertise)
        for name in ("give_up", "answer"):
            object.__setattr__(self, name, parse_duration(getattr(self, name), name))
