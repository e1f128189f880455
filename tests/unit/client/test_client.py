"""The public names, and what a client costs and does without a service."""

from __future__ import annotations

import asyncio
import ssl
from unittest.mock import Mock

import httpx
import msgspec
import pytest

import streamsched.client
from streamsched import SettingsError
from streamsched.client import (
    AsyncClient,
    AsyncOutcomeSender,
    Client,
    Outcome,
    OutcomeSender,
    RetryPolicy,
    ServiceUnavailable,
)


def released(_: httpx.Request) -> httpx.Response:
    body = msgspec.msgpack.encode({"known": 1})
    return httpx.Response(200, headers={"content-type": "application/msgpack"}, content=body)


def test_the_public_names() -> None:
    assert all(hasattr(streamsched.client, name) for name in streamsched.client.__all__)


@pytest.mark.parametrize(
    ("url", "is_read"), [("http://a.example", False), ("https://a.example", True), ("HTTPS://a.example", True)]
)
def test_certificates_are_read_for_https_only(url: str, is_read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=ssl.create_default_context)
    monkeypatch.setattr(ssl, "create_default_context", read)
    AsyncClient(url)
    assert read.called == is_read


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("inf"), "10s", True])
def test_a_wrong_timeout_is_refused(timeout_s: object) -> None:
    with pytest.raises(SettingsError, match="timeout_s"):
        Client("http://a.example", timeout_s=timeout_s)  # type: ignore[arg-type]
    with (
        Client("http://a.example", transport=httpx.MockTransport(released)) as client,
        pytest.raises(SettingsError, match="timeout_s"),
    ):
        client.release([], timeout_s=timeout_s)  # type: ignore[arg-type]


def test_each_call_of_a_batch_has_a_key_of_its_own_and_its_attempts_the_same() -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(msgspec.msgpack.decode(request.content)["key"])
        if len(keys) % 3:
            return httpx.Response(503)
        batch = {"pages": [], "now": 1.0, "repeated": False}
        headers = {"content-type": "application/msgpack"}
        return httpx.Response(200, headers=headers, content=msgspec.msgpack.encode(batch))

    policy = RetryPolicy(first_s=1e-6, most_s=1e-6)
    with Client("http://a.example", retries=policy, transport=httpx.MockTransport(answer)) as client:
        for _ in range(2):
            client.next_batch(5)
        client.next_batch(5, key="mine")
    assert keys[0] == keys[1] == keys[2] != keys[3] == keys[4] == keys[5]
    assert keys[6:] == ["mine"] * 3


def test_a_client_can_be_used_from_many_tasks_and_closed() -> None:
    async def use() -> int:
        async with AsyncClient("http://a.example", transport=httpx.MockTransport(released)) as client:
            answers = await asyncio.gather(*(client.release([]) for _ in range(50)))
        return sum(answer.known for answer in answers)

    assert asyncio.run(use()) == 50


def test_a_full_sender_waits_and_a_failing_one_raises_instead() -> None:
    """With room for two outcomes and a service that is gone, the third cannot be added."""

    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    policy = RetryPolicy(attempts=1)
    outcomes = [Outcome(f"https://a.example/{number}", 1.0) for number in range(3)]
    with Client("http://a.example", retries=policy, transport=httpx.MockTransport(refuse)) as client:
        sender = OutcomeSender(client, frame=1, every_s=0.001, capacity=2)
        accepted: list[Outcome] = []
        with pytest.raises(ServiceUnavailable):
            _add_all(sender, outcomes, accepted)
        assert sender.unsent == accepted == outcomes[:2]


def _add_all(sender: OutcomeSender, outcomes: list[Outcome], accepted: list[Outcome]) -> None:
    with sender:
        for outcome in outcomes:
            sender.add(outcome)
            accepted.append(outcome)


def test_a_cancelled_task_leaves_its_outcomes_in_the_sender() -> None:
    async def hang(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    outcome = Outcome("https://a.example/", 1.0)

    async def use() -> AsyncOutcomeSender:
        async with AsyncClient("http://a.example", transport=httpx.MockTransport(hang)) as client:
            sender = AsyncOutcomeSender(client, frame=1)

            async def crawl() -> None:
                async with sender:
                    await sender.add(outcome)

            task = asyncio.create_task(crawl())
            await asyncio.sleep(0)
            while not sender.unsent:
                await asyncio.sleep(0)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
        return sender

    assert asyncio.run(use()).unsent == [outcome]


def test_what_ends_before_the_client_may_still_call_and_the_client_closes_whatever_it_does() -> None:
    async def main() -> list[str]:
        ended: list[str] = []

        async def first() -> None:
            ended.append("first")

        async def removed() -> None:
            ended.append("removed")

        async def last() -> None:
            ended.append(f"last {(await client.release(['https://a.example/'])).known}")
            raise LookupError

        body = msgspec.msgpack.encode({"known": 1})
        answer = httpx.Response(200, headers={"content-type": "application/msgpack"}, content=body)
        client = AsyncClient("http://service.example", transport=httpx.MockTransport(lambda _: answer))
        for end in (first, removed, last):
            client.before_close(end)
        client.before_close(removed, remove=True)
        with pytest.raises(LookupError):
            await client.close()
        with pytest.raises(RuntimeError):
            await client.release(["https://a.example/"])
        await client.close()
        return ended

    assert asyncio.run(main()) == ["last 1", "first"]
