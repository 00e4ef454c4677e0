"""Detection as a PyFlink job over Kafka: the same stages as in the embedded host, with Flink's keyed state, timers and checkpoints."""
