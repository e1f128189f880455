"""A client of the HTTP service, for crawlers and operators. The extra ``streamsched[client]`` has what it needs.

`Client` and `AsyncClient` have a method for each operation of crawlers and operators; `OutcomeSender` and
`AsyncOutcomeSender` report outcomes in the background. This package imports neither the scheduler nor numba nor NumPy.
"""

from streamsched.client.async_client import AsyncClient
from streamsched.client.async_sender import AsyncOutcomeSender
from streamsched.client.protocol.events import Outcome, Signal
from streamsched.client.protocol.retries import RetryPolicy
from streamsched.client.sync_client import Client
from streamsched.client.sync_sender import OutcomeSender
from streamsched.errors import AccessDenied, ServiceError, ServiceUnavailable

__all__ = [
    "AccessDenied",
    "AsyncClient",
    "AsyncOutcomeSender",
    "Client",
    "Outcome",
    "OutcomeSender",
    "RetryPolicy",
    "ServiceError",
    "ServiceUnavailable",
    "Signal",
]
