"""The watcher beside each training process: standard library only, detached, it outlives the process by seconds at most.

`start` runs in the training process, everything else in the sidecar itself, which loads no other part of the SDK than
`_beacon`, `_http`, `_sidecar_config`, `_spool`, `conventions` and `redact`.
"""
