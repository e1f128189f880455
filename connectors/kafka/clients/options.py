"""Settings of either client, by their names in librdkafka's and Kafka's documentation.

====================================  ==================================================================
``security.protocol``                 PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
``ssl.ca.location``                   file of the trusted authorities
``ssl.certificate.location``          file of the client's certificate
``ssl.key.location``                  file of its key
``ssl.key.password``                  the key's password; ``ssl.key.password.file``: a file with it
``ssl.crl.location``                  file of revoked certificates
``ssl.cipher.suites``                 in OpenSSL's notation
``ssl.endpoint.identification...``    ``...algorithm``: https checks the brokers' names, none does not
``sasl.mechanism``                    PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI, OAUTHBEARER
``sasl.username``                     for PLAIN and SCRAM
``sasl.password``                     likewise; ``sasl.password.file``: a file with it
``sasl.kerberos.service.name``        for GSSAPI
====================================  ==================================================================

Others are passed to the client unchanged, for kafka-python with underscores in place of dots. ``api.version`` (2.3)
is kafka-python's, for brokers that do not report their version.
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
    """Return those of `options` that concern connections, which consumers and producers share.

    >>> connection_options({"sasl.username": "crawler", "fetch.min.bytes": "1"})
    {'sasl.username': 'crawler'}
    """
    return {option: value for option, value in options.items() if option.startswith(_CONNECTION)}


def to_python(options: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` by kafka-python's names, each converted to the type of its entry in `defaults`.

    Raises SettingsError if the client has no such setting or its value has the wrong type.

    >>> to_python({"session.timeout.ms": "6000"}, {"session_timeout_ms": 45000})
    {'session_timeout_ms': 6000}
    """
    converted: dict[str, Any] = {}
    for option, value in options.items():
        name = _PYTHON_NAMES.get(option, option.replace(".", "_"))
        if name not in defaults:
            raise SettingsError(option, value, "a setting of kafka-python")
        converted[name] = _convert(option, value, defaults[name])
    return converted


def _convert(option: str, value: str, default: object) -> object:
    if isinstance(default, bool):
        flag = _FLAGS.get(value.lower())
        if flag is None:
            raise SettingsError(option, value, "true or false")
        return flag
    if option == "api.version":
        return tuple(map(int, value.split(".")))
    if isinstance(default, int | float):
        try:
            return int(value)
        except ValueError:
            raise SettingsError(option, value, "a whole number") from None
    return value
