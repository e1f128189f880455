"""Bearer tokens: a file with their names, hashes, scopes and expiries, and how one is made.

A token is 256 random bits, so a plain SHA-256 hides it as well as a slow hash would: nobody can try all of them. The
file is TOML, one table for each token:

    [[token]]
    name = "crawler-1"
    hash = "sha256:9f86d081884c7d65…"
    scopes = ["crawl", "read"]
    expires = 2027-01-31T00:00:00Z
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import threading
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

from streamsched.api.operations import Scope
from streamsched.errors import NOTHING, SettingsError, SnapshotError
from streamsched.persistence.files import read_regular
from streamsched.service.event_log import LOG

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_PREFIX: Final = "ss_"  # so that scanners for leaked secrets can find tokens
_RANDOM_BYTES: Final = 32
_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_FIELDS: Final = frozenset(("name", "hash", "scopes", "expires"))
_LOOK_S: Final = 1.0  # between two looks at whether the file has changed


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the file has it. ``digest``: its SHA-256; ``expires_s``: UTC epoch seconds, None for never."""

    name: str
    digest: bytes
    scopes: frozenset[str]
    expires_s: float | None = None


def make_token() -> str:
    """Return a new token, 256 random bits as text."""
    return _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def write_entry(token: str, name: str, scopes: Sequence[str], expires_s: float | None = None) -> str:
    """Return the table of the file for `token`. Raises SettingsError if a value is invalid.

    >>> print(write_entry("ss_x", "crawler-1", ["crawl"]).splitlines()[1])
    name = "crawler-1"
    """
    table: dict[str, Any] = {"name": name, "hash": f"sha256:{_digest(token).hex()}", "scopes": list(scopes)}
    lines = ["[[token]]", f'name = "{name}"', f'hash = "{table["hash"]}"', f"scopes = {json.dumps(table['scopes'])}"]
    if expires_s is not None:
        try:
            table["expires"] = datetime.fromtimestamp(expires_s, UTC)
        except (OverflowError, ValueError):
            raise SettingsError("expires", f"{expires_s:g}", "a time before the year 10000") from None
        lines.append(f"expires = {table['expires'].isoformat(timespec='seconds').replace('+00:00', 'Z')}")
    _read_entry("token", table)
    return "\n".join([*lines, ""])


def read_tokens(path: Path) -> list[Token]:
    """Return the tokens in the file at `path`, at least one. Raises SettingsError if it is not a valid file of them."""
    try:
        tables = tomllib.loads(read_regular(path).decode("utf-8-sig"))
    except (SnapshotError, OSError) as error:
        reason = error.reason if isinstance(error, SnapshotError) else error.strerror
        raise SettingsError("tokens", str(path), f"a file that can be read ({reason})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("tokens", str(path), f"a TOML file ({error})") from error
    entries = tables.get("token")
    if tables.keys() != {"token"} or not isinstance(entries, list) or not entries:
        raise SettingsError("tokens", str(path), "one table [[token]] or more, and nothing else")
    tokens = [_read_entry(f"{path}: token {number}", entry) for number, entry in enumerate(entries, 1)]
    for number, token in enumerate(tokens):
        if any(token.name == other.name for other in tokens[:number]):
            raise SettingsError(f"{path}: token {number + 1}: name", token.name, "a name that no other token has")
    return tokens


def check_new(path: Path, name: str) -> None:
    """Raise SettingsError if the file at `path` is not valid or has a token called `name`."""
    if any(token.name == name for token in read_tokens(path)):
        raise SettingsError("NAME", name, f"a name that no token in {path} has")


class TokenFile:
    """The tokens in a file, read again once it has changed, so that a token is revoked without a restart.

    `wall`: UTC epoch seconds; `steady`: seconds of a clock that is never set. A file that has become invalid is
    reported in the log, and the tokens of before stay valid. Raises SettingsError as `read_tokens` does.
    """

    def __init__(self, path: Path, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._path = path
        self._wall = wall
        self._steady = steady
        self._lock = threading.Lock()
        self._version = self._look()
        self._tokens = read_tokens(path)
        self._look_at_s = steady() + _LOOK_S

    def find(self, presented: str) -> Token | None:
        """Return the valid token that `presented` is, None if there is none. O(tokens).

        All hashes are compared whole, so that the time taken says nothing about them.
        """
        self._renew()
        digest, found = _digest(presented), None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None or (found.expires_s is not None and self._wall() >= found.expires_s):
            return None
        return found

    def _renew(self) -> None:
        """Read the file again if it has changed since the last look, a second ago or more."""
        with self._lock:
            if self._steady() < self._look_at_s:
                return
            self._look_at_s = self._steady() + _LOOK_S
            version = self._look()
            if version == self._version:
                return
            self._version = version
            try:
                self._tokens = read_tokens(self._path)
            except SettingsError as error:
                LOG.error("tokens not read again", reason=str(error))
            else:
                LOG.info("tokens read again", tokens=len(self._tokens))

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def _read_entry(place: str, entry: Any) -> Token:
    """Return the token in a table of the file. Raises SettingsError that names `place` and the field."""
    if not isinstance(entry, dict):
        raise SettingsError(place, entry, "a table")
    for name in entry.keys() - _FIELDS:
        raise SettingsError(f"{place}: {name}", entry[name], f"one of {', '.join(sorted(_FIELDS))}")
    name, scopes, expires = entry.get("name", NOTHING), entry.get("scopes", NOTHING), entry.get("expires")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingsError(f"{place}: name", name, "1 to 64 letters, digits, dots, hyphens and underscores")
    hashed = _HASH.fullmatch(entry["hash"]) if isinstance(entry.get("hash"), str) else None
    if hashed is None:
        raise SettingsError(f"{place}: hash", entry.get("hash", NOTHING), "sha256: and 64 hexadecimal digits")
    if not isinstance(scopes, list) or not scopes or not set(map(str, scopes)) <= set(SCOPES):
        raise SettingsError(f"{place}: scopes", scopes, f"a list of {', '.join(SCOPES)}")
    if expires is not None and not isinstance(expires, datetime):
        raise SettingsError(f"{place}: expires", expires, "a date with time, such as 2027-01-31T00:00:00Z")
    expires_s = None if expires is None else (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).timestamp()
    return Token(name, bytes.fromhex(hashed[1]), frozenset(scopes), expires_s)
