"""The REST API: reads what detection wrote, writes people's marks, and never blocks the event loop on a store."""
