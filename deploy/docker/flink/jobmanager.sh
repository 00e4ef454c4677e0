#!/usr/bin/env bash
# The JobManager of a stack without Kubernetes: it starts the job itself, from the newest checkpoint that is there. In a cluster the Flink
# operator does this. Without high availability a JobManager forgets its job; a checkpoint does not.
set -euo pipefail
state=${STATE_DIR:-/state}
mkdir -p "$state/checkpoints" "$state/savepoints"
from=()
newest=$(find "$state/checkpoints" -mindepth 3 -maxdepth 3 -path '*/chk-*/_metadata' -printf '%T@ %h\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
if [ -n "$newest" ]; then
    echo "jobmanager: going on from $newest" >&2
    from=(--fromSavepoint "file://$newest")
fi
exec "${FLINK_ENTRYPOINT:-/docker-entrypoint.sh}" standalone-job \
    --job-classname org.apache.flink.client.python.PythonDriver "${from[@]}" \
    -pyclientexec python3 -py /opt/firstfault/services/firstfault_server/detect/flink/job.py "$@"
