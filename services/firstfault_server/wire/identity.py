"""Who speaks: the process key and the `Identity` that an OpenTelemetry resource stands for."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from firstfault import conventions as names
from firstfault_server.core.model import Attribute, Identity
from firstfault_server.wire.attributes import Budget, attributes, moment, string, strings, whole_number

LONGEST_NAME: Final = 256
"""Characters of an id; a longer one is replaced by its hash."""


def process_key(pairs: Iterable[KeyValue]) -> str:
    """`service.instance.id`, or a hash of the whole resource (in any order) where it is absent or empty."""
    for pair in pairs:
        if pair.key == names.INSTANCE:
            key = pair.value.string_value.strip()
            if key:
                return bounded(key)
    return "resource-" + _hash(sorted(pair.SerializeToString(deterministic=True) for pair in pairs))


def bounded(name: str) -> str:
    """The name, or a hash in its place when it is absurdly long."""
    return name if len(name) <= LONGEST_NAME else "long-" + _hash([name.encode()])


def with_aliases(resource: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
    """The resource with other senders' names for the same thing translated; our own names win."""
    if names.RESOURCE_ALIASES.keys().isdisjoint(resource):
        return resource
    merged = dict(resource)
    for alias, name in names.RESOURCE_ALIASES.items():
        if alias in resource:
            merged.setdefault(name, resource[alias])
    return merged


def identity(tenant: str, process: str, resource: Mapping[str, Attribute]) -> Identity:
    """The identity of a resource; a process that names no run gets a run of its own, with source `none`."""
    found = with_aliases(resource)
    run = bounded(string(found.get(names.RUN_ID)))
    source = string(found.get(names.RUN_ID_SOURCE)) if run else "none"
    return Identity(
        tenant=tenant,
        process=process,
        run=run or "process-" + _hash([tenant.encode(), process.encode()]),
        run_source=bounded(source),
        run_name=string(found.get(names.RUN_NAME)),
        rank=whole_number(found.get(names.RANK)),
        local_rank=whole_number(found.get(names.LOCAL_RANK)),
        world_size=whole_number(found.get(names.WORLD_SIZE)),
        role=string(found.get(names.ROLE)) or "trainer",
        stage=string(found.get(names.STAGE)),
        launcher=string(found.get(names.LAUNCHER)),
        restart_count=whole_number(found.get(names.RESTART_COUNT)),
        owner=string(found.get(names.OWNER)),
        job_id=string(found.get(names.JOB_ID)),
        log_paths=strings(found.get(names.LOG_PATHS)),
        command=" ".join(strings(found.get(names.COMMAND))),
        node=bounded(string(found.get(names.HOST))),
        cluster=bounded(string(found.get(names.CLUSTER))),
        pid=whole_number(found.get(names.PID)),
        gpu_uuid=bounded(string(found.get(names.GPU_UUID))),
        service=string(found.get(names.SERVICE)),
        started_ns=moment(found.get(names.STARTED)),
    )


class Identities:
    """Identities by the bytes of their resource, so that each is read once; bounded, forgotten all at once when full."""

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._known: dict[tuple[str, str, bytes], Identity] = {}

    def of(self, tenant: str, process: str, resource: Resource) -> Identity:
        """The identity of a resource."""
        key = (tenant, process, resource.SerializeToString())
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= self._most:
                self._known.clear()
            found = self._known[key] = identity(tenant, process, attributes(resource.attributes, Budget()))
        return found


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:16]
