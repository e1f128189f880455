"""A topic for a test: how it is made, filled and opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from streamsched.connectors.kafka import KafkaSink, KafkaSource, open_kafka, open_sink, read_settings
from streamsched.connectors.kafka.clients.factory import open_consumer, open_producer
from streamsched.connectors.kafka.clients.protocol import Headers, Producer
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.integration.kafka.broker import Address
from tests.support.waiting import CALL_S, pause

CLIENTS: Final = ("kafka-python", "confluent")
_PATIENCE: Final = 240  # polls of a quarter second: a loaded machine may take its time


@dataclass(frozen=True)
class Topic:
    """The topic `name`, reached by `client`."""

    address: Address
    client: str
    name: str

    def through(self, servers: str) -> Topic:
        """The same topic by way of `servers`."""
        return replace(self, address=replace(self.address, servers=servers))

    def url(self, **settings: object) -> str:
        query = {"client": self.client, "patience": "20s", **settings}
        if not self.address.is_real and self.client == "kafka-python":
            query["api.version"] = "2.3"  # the mock does not report its own
        text = "&".join(f"{name.replace('_', '-')}={value}" for name, value in query.items())
        return f"kafka://{self.address.servers}/{self.name}?{text}"

    def open(self, **settings: object) -> KafkaSource[OutcomeBatch]:
        return open_kafka(self.url(**settings))

    def read(self, **settings: object) -> list[Outcome]:
        """All outcomes that are in the topic now."""
        with self.open(until_end="true", **settings) as source:
            return [outcome for delivery in source for outcome in delivery.records]

    def messages(self) -> list[tuple[bytes | None, bytes, dict[str, str]]]:
        """Key, value and headers of each message that is in the topic now."""
        consumer = open_consumer(read_settings(self.url()))
        found: list[tuple[bytes | None, bytes, dict[str, str]]] = []
        try:
            bounds = consumer.bounds(consumer.partitions())
            consumer.assign({partition: first for partition, (first, _) in bounds.items()})
            while len(found) < sum(last - first for first, last in bounds.values()):
                for chunk in consumer.poll(0.25, 1_000):
                    headers = chunk.headers or [None] * len(chunk)
                    for key, value, own in zip(chunk.keys, chunk.values, headers, strict=True):
                        found.append((key, value or b"", {name: (text or b"").decode() for name, text in own or ()}))
        finally:
            consumer.close()
        return found

    def committed(self, group: str) -> int | None:
        """The offset that `group` has committed for partition 0."""
        consumer = open_consumer(read_settings(self.url(group=group)))
        try:
            return consumer.committed([0]).get(0)
        finally:
            consumer.close()

    def open_sink(self) -> KafkaSink:
        return open_sink(self.url())

    @contextmanager
    def producing(self) -> Iterator[Producer]:
        # By kafka-python: an idempotent producer of librdkafka takes half a second to begin.
        producer = open_producer(read_settings(replace(self, client="kafka-python").url()))
        try:
            yield producer
        finally:
            producer.close()

    def send(
        self,
        values: Iterable[bytes | None],
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        with self.producing() as producer:
            for value in values:
                producer.send(self.name, value, key, headers, partition)  # type: ignore[arg-type]  # None: a tombstone

    def create(self, partitions: int, configs: Mapping[str, str]) -> None:
        if not self.address.is_real:
            with self.producing() as producer:  # the mock makes a topic when it is asked about it
                assert producer.partitions(self.name) == partitions
            return
        with self.administering() as admin:
            settings = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
            admin.create_topics({self.name: settings}, wait_for_metadata=True)

    def grow(self, partitions: int) -> None:
        """Give the topic that number of partitions."""
        with self.administering() as admin:
            admin.create_partitions({self.name: partitions})

    def configure(self, configs: Mapping[str, str]) -> None:
        """Change settings of the topic."""
        from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self.address.servers})
        admin.incremental_alter_configs([resource])[resource].result()

    def delete(self) -> None:
        """Delete the topic, and wait until it is gone."""
        with self.administering() as admin:
            admin.delete_topics([self.name])
            while self.name in {one["name"] for one in admin.describe_topics() if not one["error_code"]}:
                pause(CALL_S)

    @contextmanager
    def administering(self) -> Iterator[Any]:
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.address.servers)
        try:
            yield admin
        finally:
            admin.close()

    def delete_before(self, offset: int, partition: int = 0) -> None:
        """Delete the messages before `offset`, as retention does."""
        from streamsched.connectors.kafka.clients.kafka_python import library

        with self.administering() as admin:
            admin.delete_records({library.TopicPartition(self.name, partition): offset})


def encode_event(url: str, fetched_at: float | str, **fields: object) -> bytes:
    """An event as a msgpack map."""
    return msgspec.msgpack.encode({"url": url, "fetched_at": fetched_at, **fields})


def wait_for(source: KafkaSource[OutcomeBatch], count: int) -> list[Outcome]:
    """Poll until there are `count` outcomes; fails if they do not arrive."""
    found: list[Outcome] = []
    for _ in range(_PATIENCE):
        delivery = source.poll(0.25)
        found += [] if delivery is None else delivery.records
        if len(found) >= count:
            break
    assert len(found) == count
    return found
