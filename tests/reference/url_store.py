"""The texts of URLs as `streamsched.records.url_store` keeps them, in plain Python."""

from __future__ import annotations

ANCHOR_BYTES, MOST_SHARED = 5, 255


class UrlStore:
    """``text``: what is kept; ``spans``: start, bytes shared and length of each URL; ``anchors``: places, by group."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.spans: list[tuple[int, int, int]] = []
        self.anchors: dict[int, int] = {}

    def keep(self, group: int, url: bytes) -> int:
        """Keep the next URL, of a page of `group`; return the place of the group's anchor before, -1 for none."""
        start, anchor = len(self.text), self.anchors.get(group, -1)
        like = bytes(self.text[anchor : anchor + MOST_SHARED]) if anchor >= 0 else b""
        shared = next((i for i, (one, other) in enumerate(zip(like, url, strict=False)) if one != other), None)
        shared = min(len(like), len(url)) if shared is None else shared
        if shared > ANCHOR_BYTES:
            self.text += anchor.to_bytes(ANCHOR_BYTES, "little") + url[shared:]
        else:
            shared = 0
            self.text += url
            self.anchors[group] = start
        self.spans.append((start, shared, len(url)))
        return anchor

    def read(self, number: int) -> bytes:
        """Return URL `number`."""
        start, shared, length = self.spans[number]
        if not shared:
            return bytes(self.text[start : start + length])
        rest = start + ANCHOR_BYTES
        anchor = int.from_bytes(self.text[start:rest], "little")
        return bytes(self.text[anchor : anchor + shared] + self.text[rest : rest + length - shared])
