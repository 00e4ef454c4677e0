"""Pages people: turns incident revisions into messages of a durable outbox, and delivers them until they arrive."""
