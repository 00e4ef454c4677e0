"""The input log of the embedded service: append-only segment files with group commit."""

from firstfault_server.adapters.filelog.log import FileLog, LogCounts

__all__ = ["FileLog", "LogCounts"]
