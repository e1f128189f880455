"""Which addresses and ports may be connected to: public ones, and those that the operator allows."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from streamsched.errors import SettingsError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

WEB_PORTS: Final = frozenset((80, 443))
_EXPECTED: Final = "a network, such as 10.0.0.0/8 or fd00::/8, without bits behind its prefix"

# Not in `ipaddress.is_global`, whose answers differ between releases of Python.
_SPECIAL_4: Final = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
            *("203.0.113.0/24", "224.0.0.0/3"),
            "168.63.129.16/32",  # a public address that answers within Azure only, with secrets of the machine
        ),
    )
)
_GLOBAL_6: Final = IPv6Network("2000::/3")
_SPECIAL_6: Final = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_HOLDS_4: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))  # mapped addresses, NAT64


def is_public(address: Address) -> bool:
    """Return whether `address` is one of the public internet. O(1).

    Sources: IANA's registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890). Of IPv6 only 2000::/3 is
    assigned; what wraps an IPv4 address (mapped, NAT64) is judged by that address, 6to4 and Teredo are refused.

    >>> [is_public(ip_address(text)) for text in ("9.9.9.9", "10.0.0.1", "::1", "64:ff9b::a00:1")]
    [True, False, False, False]
    """
    address = _unwrap(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    return address in _GLOBAL_6 and not any(address in network for network in _SPECIAL_6)


def _unwrap(address: Address) -> Address:
    if isinstance(address, IPv6Address) and any(address in network for network in _HOLDS_4):
        return IPv4Address(address.packed[-4:])
    return address


@dataclass(frozen=True, slots=True)
class Reach:
    """Which sockets may be opened.

    - ``allow``: networks that may be connected to though they are not public;
    - ``ports``: the ports of all hosts, None for any;
    - ``allow_ports``: further ports of addresses in ``allow``.

    >>> reach = Reach(allow=read_networks(["10.0.0.0/8"]), allow_ports=frozenset([8080]))
    >>> [reach.allows(ip_address("10.1.2.3"), port) for port in (80, 8080, 22)]
    [True, True, False]
    """

    allow: tuple[Network, ...] = ()
    ports: frozenset[int] | None = WEB_PORTS
    allow_ports: Container[int] = frozenset()

    def may_serve(self, port: int) -> bool:
        """Return whether any address may be connected to at `port`. O(1)."""
        return self.ports is None or port in self.ports or port in self.allow_ports

    def allows(self, address: Address, port: int) -> bool:
        """Return whether a socket to `address` and `port` may be opened. O(networks)."""
        plain = _unwrap(address)
        is_allowed = any(plain in network for network in self.allow)
        is_port = self.ports is None or port in self.ports or (is_allowed and port in self.allow_ports)
        return is_port and (is_allowed or is_public(plain))


PUBLIC: Final = Reach()
"""Public addresses, at the ports of the web."""

ANYWHERE: Final = Reach(allow=(IPv4Network("0.0.0.0/0"), IPv6Network("::/0")), ports=None)
"""For URLs that the person at the terminal has typed: that person may open any socket anyway."""


def read_networks(texts: Iterable[str], setting: str = "allow") -> tuple[Network, ...]:
    """Return the networks that `texts` name. Raises SettingsError naming `setting`."""
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ip_network(text))
        except ValueError:
            raise SettingsError(setting, text, _EXPECTED) from None
    return tuple(networks)


def read_address(text: str) -> Address:
    """Return the address in `text`, without the zone of a link-local one. Raises ValueError."""
    return ip_address(text.partition("%")[0])
