"""Two Kafka clients with one interface: kafka-python and librdkafka."""
