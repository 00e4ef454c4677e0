"""Works on files of a failed job without any server: explain, group."""
