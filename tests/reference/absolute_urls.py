"""Slow reference implementation of which URLs are absolute, character by character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection


def is_absolute(url: str, schemes: Collection[str] | None) -> bool:
    """Return whether `url` has one of `schemes`, any for None, ``://``, a host, no blank or control character."""
    if any(character.isspace() or unicodedata.category(character) == "Cc" for character in url):
        return False
    scheme, mark, rest = url.partition("://")
    if not mark or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return False
    if schemes is not None and scheme.lower() not in schemes:
        return False
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return host != "" and not host.startswith(":")
