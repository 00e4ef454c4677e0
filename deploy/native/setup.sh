#!/usr/bin/env bash
# Makes .venv: a pinned uv, everything of requirements/dev.txt by hash, server and SDK installed editable. Does nothing when up to date.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=.venv
stamp=$venv/.setup-stamp

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "setup: firstfault needs Python 3.11 or newer; found $(python3 --version 2>&1 || echo none). Set PYTHON=/path/to/python3.11." >&2
    return 1
}

python=$(find_python)
key=$({ "$python" --version; cat requirements/bootstrap.txt requirements/dev.txt pyproject.toml sdk/pyproject.toml deploy/native/setup.sh; } | sha256sum | cut -c1-64)
if [ -x $venv/bin/firstfault ] && [ "$(cat $stamp 2>/dev/null)" = "$key" ]; then
    exit 0
fi

say() { echo "setup: $*" >&2; }
started=$SECONDS
rm -f $stamp
if ! $venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "making $venv with $("$python" --version)"
    "$python" -m venv --clear $venv
fi
if ! $venv/bin/uv --version >/dev/null 2>&1; then
    $venv/bin/python -m ensurepip -q >/dev/null 2>&1 || true
    $venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
fi
# uv reads no pip configuration: hand over a private index if one is set.
export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-}}
[ -n "$UV_DEFAULT_INDEX" ] || unset UV_DEFAULT_INDEX
export VIRTUAL_ENV=$PWD/$venv UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180} UV_NO_PROGRESS=1
say "installing $(grep -c '==' requirements/dev.txt) locked packages"
$venv/bin/uv pip sync -q --require-hashes requirements/dev.txt
$venv/bin/uv pip install -q --no-deps --no-build-isolation -e . -e sdk
echo "$key" > $stamp
say "ready in $((SECONDS - started)) s"
