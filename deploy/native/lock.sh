#!/usr/bin/env bash
# Rewrites the hashed locks of requirements/ from their .in files. The locks name no registry, so any mirror can serve them.
set -euo pipefail
cd "$(dirname "$0")/../.."
for name in dev server services sdk bootstrap build deploy torch torch-wheel flink flink-wheel; do
    oldest=3.11
    deps=
    [ $name = sdk ] && oldest=3.10
    [[ $name = *-wheel ]] && deps=--no-deps
    # One version of everything, whichever lock it comes from; PyFlink wants older ones of some.
    agree=
    [[ $name = dev || $name = flink* ]] || agree="-c requirements/dev.txt"
    left_out=
    [ $name = services ] && left_out="--excludes requirements/services.without"
    "${UV:-.venv/bin/uv}" pip compile -q --universal --python-version $oldest --fork-strategy fewest --generate-hashes \
        --no-emit-index-url --no-header $deps $agree $left_out "$@" requirements/$name.in -o requirements/$name.txt
done
if grep -nE '(https?|file)://|--(index-url|extra-index-url|find-links)' requirements/*.txt; then
    echo "lock: a lock names a registry" >&2
    exit 1
fi
