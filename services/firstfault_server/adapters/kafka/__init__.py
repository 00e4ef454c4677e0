"""The input log and the topics of the distributed service, over Kafka."""

from firstfault_server.adapters.kafka.connection import Connection
from firstfault_server.adapters.kafka.consumer import GroupConsumer, Take
from firstfault_server.adapters.kafka.consuming import ConsumerLoop
from firstfault_server.adapters.kafka.cursor import Cursor
from firstfault_server.adapters.kafka.log import TOPIC, KafkaLog
from firstfault_server.adapters.kafka.sender import RecordSender
from firstfault_server.adapters.kafka.topics import TOPICS, Change, Topic, ensure_topics

__all__ = [
    "TOPIC",
    "TOPICS",
    "Change",
    "Connection",
    "ConsumerLoop",
    "Cursor",
    "GroupConsumer",
    "KafkaLog",
    "RecordSender",
    "Take",
    "Topic",
    "ensure_topics",
]
