"""A client's settings by the names that librdkafka and Kafka's documentation give them, for either client.

====================================  ==================================================================
``security.protocol``                 PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
``ssl.ca.location``                   file of the authorities to trust
``ssl.certificate.location``          file of the client's certificate
``ssl.key.location``                  file of its key
``ssl.key.password``                  the key's password; ``ssl.key.password.file``: a file with it
``ssl.crl.location``                  file of revoked certificates
``ssl.cipher.suites``                 as OpenSSL writes them
``ssl.endpoint.identification...``    ``...algorithm``: https checks the brokers' names, none does not
``sasl.mechanism``                    PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI, OAUTHBEARER
``sasl.username``                     of PLAIN and SCRAM
``sasl.password``                     likewise; ``sasl.password.file``: a file with it
``sasl.kerberos.service.name``        of GSSAPI
====================================  ==================================================================

Any other goes to the client as it is, its dots as underscores for kafka-python. ``api.version`` (2.3) is that
client's for brokers that do not say what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamsched.errors import SettingsError

__all__ = ["connection_options", "to_python"]

_CONNECTION: Final = (
    "api.",
    "client.",
    "connections.",
    "enable.ssl.",
    "reconnect.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
)
_PYTHON_NAMES: Final = {
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.password": "sasl_plain_password",
    "sasl.username": "sasl_plain_username",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.cipher.suites": "ssl_ciphers",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_FLAGS: Final = {"true": True, "false": False, "https": True, "none": False, "": False}


def connection_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of `options` that say how to reach and persuade a broker: consumers and producers share them.

    >>> connection_options({"sasl.username": "crawler", "fetch.min.bytes": "1"})
    {'sasl.username': 'crawler'}
    """
    return {word: value for word, value in options.items() if word.startswith(_CONNECTION)}


def to_python(options: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` by kafka-python's names, each of the type that its entry in `defaults` has.

    Raises SettingsError where the client has no such setting or its value is of the wrong kind.

    >>> to_python({"session.timeout.ms": "6000"}, {"session_timeout_ms": 45000})
    {'session_timeout_ms': 6000}
    """
    found: dict[str, Any] = {}
    for word, value in options.items():
        name = _PYTHON_NAMES.get(word, word.replace(".", "_"))
        if name not in defaults:
            raise SettingsError(word, value, "a setting that kafka-python has")
        found[name] = _convert(word, value, defaults[name])
    return found


def _convert(word: str, value: str, default: object) -> object:
    if isinstance(default, bool):
        flag = _FLAGS.get(value.lower())
        if flag is None:
            raise SettingsError(word, value, "true or false")
        return flag
    if word == "api.version":
        return tuple(map(int, value.split(".")))
    if isinstance(default, int | float):
        try:
            return int(value)
        except ValueError:
            raise SettingsError(word, value, "a whole number") from None
    return value
