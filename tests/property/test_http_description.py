"""The service against its own description: schemathesis makes requests from it, alone and in chains of links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, cast

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from streamsched import OutcomeBatch
from streamsched.frames import encode_frame
from streamsched.http.open_http import make_routes
from streamsched.http.protocol.bodies import FRAMES, MSGPACK
from streamsched.http.service import Service
from tests.support.cases import how_many
from tests.support.http_service import NOW, TOKENS, URLS, running

AUTHORIZATION = {"Authorization": f"Bearer {TOKENS['all']}"}
LONGEST_S = 300.0  # of a request that waits for kernels to be compiled
SHORT = settings(
    max_examples=how_many(6, 12),
    stateful_step_count=6,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.generate],
)
FRAME = encode_frame(OutcomeBatch(URLS, [NOW - 60.0] * len(URLS), changed=[True] * len(URLS)))

schemathesis.openapi.media_type(FRAMES, st.binary(max_size=64) | st.just(FRAME) | st.just(FRAME[:-7]))


@schemathesis.serializer(MSGPACK)
def to_msgpack(_context: Any, value: Any) -> bytes:
    try:
        return value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
    except OverflowError:  # whole numbers that msgpack does not have
        raise UnsatisfiedAssumption from None


@schemathesis.deserializer(MSGPACK)
def from_msgpack(_context: Any, response: Any) -> Any:
    return msgspec.msgpack.decode(response.content)


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running(tmp_path_factory.mktemp("service"), tokens=True, rate=1_000_000) as service:
        service.client.post("/v1/discover", json={"urls": URLS})
        yield schemathesis.openapi.from_url(f"http://{service.server.address}/openapi.json")


WITH_GRAMMAR = (  # hosts, targets of rules and formulas: no schema says which of them are valid
    "POST /v1/next",
    "POST /v1/offer",
    "POST /v1/grant",
    "PUT /v1/rules",
    "PUT /v1/politeness",  # two pairs of its durations have an order
    "POST /v1/forget",
    "GET /v1/hosts/{host}",
    "POST /v1/hosts/{host}/block",
    "PUT /v1/champion",
    "GET /v1/formula",
    "GET /v1/week",  # at most one of its parameters
    "GET /v1/changes",  # a cursor is of one feed
)
ROUTES = {route.operation.route: route for route in make_routes(cast(Service, None)) if route.operation.is_described}


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("name", ROUTES)
def test_every_answer_is_as_described(description: Any, name: str, mode: GenerationMode) -> None:
    method, path = name.split()
    route, operation = ROUTES[name], description[path][method]
    if mode is GenerationMode.NEGATIVE and route.body is None and route.query is None:
        return  # nothing about it can be wrong

    @SHORT
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(headers=AUTHORIZATION, timeout=LONGEST_S, excluded_checks=_excluded(case))

    call()


def _excluded(case: schemathesis.Case[Any]) -> list[Any]:
    """The checks that a request cannot pass."""
    name = f"{case.operation.method.upper()} {case.operation.path}"
    is_frame = case.media_type == FRAMES  # any bytes, as far as the description goes
    is_sent = [] not in (case.query or {}).values()  # a parameter without values is left out, so nothing is wrong
    excluded = [positive_data_acceptance] if is_frame or name in WITH_GRAMMAR else []
    return excluded if is_sent else [*excluded, negative_data_rejection]


def test_chains_of_requests_are_answered_as_described(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each chain begins with a service of its own, so that a chain repeated is answered as before."""
    with running(tmp_path_factory.mktemp("service")) as service:
        address = service.server.address
        machine = schemathesis.openapi.from_url(f"http://{address}/openapi.json").as_state_machine()

    class Crawl(machine):  # type: ignore[misc, valid-type]
        def setup(self) -> None:
            super().setup()
            self.resources = ExitStack()
            folder = tmp_path_factory.mktemp("service")
            service = self.resources.enter_context(running(folder, tokens=True, rate=1_000_000, address=address))
            service.client.post("/v1/discover", json={"urls": URLS})

        def teardown(self) -> None:
            self.resources.close()
            super().teardown()

        def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:  # noqa: ARG002
            return {"headers": AUTHORIZATION, "timeout": LONGEST_S}

        def validate_response(
            self,
            response: Any,
            case: schemathesis.Case[Any],
            additional_checks: list[Any] | None = None,
            **kwargs: Any,
        ) -> None:
            excluded = [*_excluded(case), negative_data_rejection]  # a link may have replaced what was wrong
            case.validate_response(
                response, additional_checks=additional_checks, excluded_checks=excluded, transport_kwargs=kwargs
            )

    Crawl.run(settings=SHORT)
