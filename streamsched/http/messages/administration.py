"""What administrators send: rules, blocks, the formula; and what monitors get."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from streamsched.http.messages.fields import Duration, DurationOrZero, Message
from streamsched.politeness.politeness_settings import MOST_OF_A_HOST

__all__ = ["Block", "ChampionChange", "Health", "RuleFields", "Rules"]


class RuleFields(Message):
    """A rule for a host (``delay``, ``in_flight``, ``per_batch``) or for pages (the others), as docs/run.md says."""

    delay: DurationOrZero | UnsetType = UNSET
    in_flight: Annotated[int, Meta(ge=1, le=MOST_OF_A_HOST)] | UnsetType = UNSET
    per_batch: Annotated[int, Meta(ge=1, le=MOST_OF_A_HOST)] | UnsetType = UNSET
    min_revisit: DurationOrZero | UnsetType = UNSET
    max_revisit: Duration | UnsetType = UNSET
    never: bool | UnsetType = UNSET


class Rules(Message):
    """Rules by target: a host, a URL pattern or a page; null removes a rule. Others stay as they are."""

    rules: Annotated[dict[str, RuleFields | None], Meta(max_length=1_000)]


class Block(Message):
    """For how many seconds to visit no page of a host; 0 ends a block."""

    seconds: Annotated[float, Meta(ge=0.0, le=1e9)]


class ChampionChange(Message):
    """``formula``: a formula, an objective, or the number of a record whose champion is used again."""

    formula: Annotated[str, Meta(min_length=1, max_length=10_000)] | Annotated[int, Meta(ge=1, le=2**53)]


class Health(Message):
    """``status``: "ok", or in a few words what keeps the service from answering."""

    status: str
