"""The two Kafka clients behind one protocol: kafka-python and librdkafka's."""
