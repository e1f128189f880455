"""A client of the HTTP service, for crawlers and operators. The extra ``streamsched[client]`` has what it needs.

`Client` and `AsyncClient` have a method for each operation of crawlers and operators; `OutcomeSender` and
`AsyncOutcomeSender` report outcomes in the background. This package imports NumPy, but neither the scheduler nor numba.
"""

from streamsched.client.async_client import AsyncClient
from streamsched.client.blocking import Client, OutcomeSender
from streamsched.client.retries import RetryPolicy
from streamsched.client.sender import AsyncOutcomeSender
from streamsched.errors import AccessDenied, ServiceError, ServiceUnavailable
from streamsched.outcomes import Outcome
from streamsched.signals import Signal

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
