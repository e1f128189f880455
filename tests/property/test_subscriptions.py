"""Subscriptions at hubs in any order of events: which callbacks are believed, and that hubs are asked again."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamsched.fetching.subscriptions import DENIED_S, MOST_LEASE_S, Callback, Subscription, Subscriptions
from tests.support.websub_hub import sign

URLS = st.sampled_from(["http://a.example/1", "http://a.example/2"])
HUBS = st.sampled_from(["", "http://h.example/", "http://i.example/"])
TOPICS = st.sampled_from(["http://a.example/t", "http://a.example/u"])


class SubscriptionEvents(RuleBasedStateMachine):
    """Hubs and strangers, who know all tokens that there ever were, say anything at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions = Subscriptions()
        self.subscriptions.open("http://me.example/", 0.0)
        self.now = 0.0
        self.asked: list[tuple[Subscription, Callback, str]] = []  # with the topic that was asked for
        self.until: dict[str, float] = {}  # of verified tokens: the longest that they may be believed

    @rule(seconds=st.sampled_from([0.0, 1.0, 59.0, 3_600.0, 86_400.0, 10 * 86_400.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(url=URLS, hub=HUBS, topic=TOPICS)
    def advertise(self, url: str, hub: str, topic: str) -> None:
        self.subscriptions.advertise(url, hub, topic, self.now)

    @rule(url=URLS)
    def end(self, url: str) -> None:
        self.subscriptions.end(url)

    @rule()
    def ask(self) -> None:
        for one in self.subscriptions.due(self.now, 8):
            assert one.hub
            assert one.next_at <= self.now
            self.asked.append((one, self.subscriptions.ask(one, self.now), one.topic))

    @rule(data=st.data(), retry_after_s=st.sampled_from([0.0, 1e9]))
    def fail(self, data: st.DataObject, retry_after_s: float) -> None:
        if self.asked:
            one, callback, _ = data.draw(st.sampled_from(self.asked))
            self.subscriptions.fail(one, callback, self.now, retry_after_s)

    @rule(data=st.data(), topic=TOPICS, lease_s=st.sampled_from([1.0, 600.0, 1e12]))
    def verify(self, data: st.DataObject, topic: str, lease_s: float) -> None:
        if not self.asked:
            return
        _, callback, asked = data.draw(st.sampled_from(self.asked))
        was_active = self.subscriptions.find(callback.token, self.now) is not None
        if self.subscriptions.verify(callback.token, topic, lease_s, self.now):
            assert topic == asked or was_active
            self.until.setdefault(callback.token, self.now + min(max(lease_s, 60.0), MOST_LEASE_S))
            assert self.subscriptions.find(callback.token, self.now) is not None
        else:
            assert not (was_active and topic == asked == callback_topic(self.subscriptions, callback.token))

    @rule(data=st.data(), topic=TOPICS)
    def deny(self, data: st.DataObject, topic: str) -> None:
        if self.asked:
            _, callback, _ = data.draw(st.sampled_from(self.asked))
            if self.subscriptions.deny(callback.token, topic, self.now):
                assert self.subscriptions.find(callback.token, self.now) is None

    @rule(data=st.data(), body=st.binary(max_size=3), is_right=st.booleans())
    def send(self, data: st.DataObject, body: bytes, is_right: bool) -> None:
        if not self.asked:
            return
        _, callback, _ = data.draw(st.sampled_from(self.asked))
        found = self.subscriptions.find(callback.token, self.now)
        if found is not None:
            fate = found[1].judge(body, sign(callback.secret if is_right else "x", body))
            assert (fate == "forged") != is_right
            assert not is_right or found[1].judge(body, sign(callback.secret, body)) == "repeated"

    @rule()
    def restart(self) -> None:
        self.subscriptions = Subscriptions(self.subscriptions.records())
        self.subscriptions.open("http://me.example/", self.now)

    @invariant()
    def only_verified_callbacks_are_believed_within_their_leases(self) -> None:
        for _, callback, _ in self.asked:
            if self.subscriptions.find(callback.token, self.now) is not None:
                assert self.now < self.until[callback.token]

    @invariant()
    def a_hub_is_asked_again_in_time(self) -> None:
        for one in self.subscriptions.records():
            assert (one.next_at == math.inf) == (not one.hub) or one.next_at <= self.now + DENIED_S
            if one.hub and one.active is not None:
                assert one.next_at <= max(one.active.until, self.now + DENIED_S)


def callback_topic(subscriptions: Subscriptions, token: str) -> str | None:
    """Return the topic of the subscription that has the callback `token` now."""
    for one in subscriptions.records():
        if one.hub and token in {callback.token for callback in (one.asked, one.active) if callback is not None}:
            return one.topic
    return None


TestSubscriptionEvents = SubscriptionEvents.TestCase
