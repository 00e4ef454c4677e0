from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Identity(_message.Message):
    __slots__ = ("tenant", "process", "run", "run_source", "run_name", "rank", "local_rank", "world_size", "role", "stage", "launcher", "restart_count", "owner", "job_id", "log_paths", "command", "node", "cluster", "pid", "gpu_uuid", "service", "started_ns")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RUN_SOURCE_FIELD_NUMBER: _ClassVar[int]
    RUN_NAME_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    LAUNCHER_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_PATHS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    process: str
    run: str
    run_source: str
    run_name: str
    rank: int
    local_rank: int
    world_size: int
    role: str
    stage: str
    launcher: str
    restart_count: int
    owner: str
    job_id: str
    log_paths: _containers.RepeatedScalarFieldContainer[str]
    command: str
    node: str
    cluster: str
    pid: int
    gpu_uuid: str
    service: str
    started_ns: int
    def __init__(self, tenant: _Optional[str] = ..., process: _Optional[str] = ..., run: _Optional[str] = ..., run_source: _Optional[str] = ..., run_name: _Optional[str] = ..., rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., world_size: _Optional[int] = ..., role: _Optional[str] = ..., stage: _Optional[str] = ..., launcher: _Optional[str] = ..., restart_count: _Optional[int] = ..., owner: _Optional[str] = ..., job_id: _Optional[str] = ..., log_paths: _Optional[_Iterable[str]] = ..., command: _Optional[str] = ..., node: _Optional[str] = ..., cluster: _Optional[str] = ..., pid: _Optional[int] = ..., gpu_uuid: _Optional[str] = ..., service: _Optional[str] = ..., started_ns: _Optional[int] = ...) -> None: ...

class AttributeList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Attribute]
    def __init__(self, values: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("text", "integer", "number", "truth", "list")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TRUTH_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    text: str
    integer: int
    number: float
    truth: bool
    list: AttributeList
    def __init__(self, text: _Optional[str] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., truth: _Optional[bool] = ..., list: _Optional[_Union[AttributeList, _Mapping]] = ...) -> None: ...

class Rollup(_message.Message):
    __slots__ = ("tenant", "run", "process", "rank", "node", "metric", "attributes", "window_ns", "position", "count", "sum", "sumsq", "min", "max", "first", "first_ns", "last", "last_ns", "nonfinite", "step_min", "step_max")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_NS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    SUMSQ_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    FIRST_NS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LAST_NS_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_FIELD_NUMBER: _ClassVar[int]
    STEP_MIN_FIELD_NUMBER: _ClassVar[int]
    STEP_MAX_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    run: str
    process: str
    rank: int
    node: str
    metric: str
    attributes: str
    window_ns: int
    position: str
    count: int
    sum: float
    sumsq: float
    min: float
    max: float
    first: float
    first_ns: int
    last: float
    last_ns: int
    nonfinite: int
    step_min: int
    step_max: int
    def __init__(self, tenant: _Optional[str] = ..., run: _Optional[str] = ..., process: _Optional[str] = ..., rank: _Optional[int] = ..., node: _Optional[str] = ..., metric: _Optional[str] = ..., attributes: _Optional[str] = ..., window_ns: _Optional[int] = ..., position: _Optional[str] = ..., count: _Optional[int] = ..., sum: _Optional[float] = ..., sumsq: _Optional[float] = ..., min: _Optional[float] = ..., max: _Optional[float] = ..., first: _Optional[float] = ..., first_ns: _Optional[int] = ..., last: _Optional[float] = ..., last_ns: _Optional[int] = ..., nonfinite: _Optional[int] = ..., step_min: _Optional[int] = ..., step_max: _Optional[int] = ...) -> None: ...

class RollupBatch(_message.Message):
    __slots__ = ("rollups", "columns")
    ROLLUPS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rollups: _containers.RepeatedCompositeFieldContainer[Rollup]
    columns: _containers.RepeatedCompositeFieldContainer[RollupColumns]
    def __init__(self, rollups: _Optional[_Iterable[_Union[Rollup, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[RollupColumns, _Mapping]]] = ...) -> None: ...

class RollupColumns(_message.Message):
    __slots__ = ("tenant", "run", "process", "rank", "node", "position", "metric", "attributes", "window_ns", "count", "sum", "sumsq", "min", "max", "first", "first_ns", "last", "last_ns", "nonfinite", "step_min", "step_max")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_NS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    SUMSQ_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    FIRST_NS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LAST_NS_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_FIELD_NUMBER: _ClassVar[int]
    STEP_MIN_FIELD_NUMBER: _ClassVar[int]
    STEP_MAX_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    run: str
    process: str
    rank: int
    node: str
    position: str
    metric: _containers.RepeatedScalarFieldContainer[str]
    attributes: _containers.RepeatedScalarFieldContainer[str]
    window_ns: _containers.RepeatedScalarFieldContainer[int]
    count: _containers.RepeatedScalarFieldContainer[int]
    sum: _containers.RepeatedScalarFieldContainer[float]
    sumsq: _containers.RepeatedScalarFieldContainer[float]
    min: _containers.RepeatedScalarFieldContainer[float]
    max: _containers.RepeatedScalarFieldContainer[float]
    first: _containers.RepeatedScalarFieldContainer[float]
    first_ns: _containers.RepeatedScalarFieldContainer[int]
    last: _containers.RepeatedScalarFieldContainer[float]
    last_ns: _containers.RepeatedScalarFieldContainer[int]
    nonfinite: _containers.RepeatedScalarFieldContainer[int]
    step_min: _containers.RepeatedScalarFieldContainer[int]
    step_max: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tenant: _Optional[str] = ..., run: _Optional[str] = ..., process: _Optional[str] = ..., rank: _Optional[int] = ..., node: _Optional[str] = ..., position: _Optional[str] = ..., metric: _Optional[_Iterable[str]] = ..., attributes: _Optional[_Iterable[str]] = ..., window_ns: _Optional[_Iterable[int]] = ..., count: _Optional[_Iterable[int]] = ..., sum: _Optional[_Iterable[float]] = ..., sumsq: _Optional[_Iterable[float]] = ..., min: _Optional[_Iterable[float]] = ..., max: _Optional[_Iterable[float]] = ..., first: _Optional[_Iterable[float]] = ..., first_ns: _Optional[_Iterable[int]] = ..., last: _Optional[_Iterable[float]] = ..., last_ns: _Optional[_Iterable[int]] = ..., nonfinite: _Optional[_Iterable[int]] = ..., step_min: _Optional[_Iterable[int]] = ..., step_max: _Optional[_Iterable[int]] = ...) -> None: ...

class ExceptionInfo(_message.Message):
    __slots__ = ("type", "message", "stacktrace")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STACKTRACE_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    stacktrace: str
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., stacktrace: _Optional[str] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("id", "identity", "time_ns", "received_ns", "event_name", "severity", "body", "exception", "fingerprint", "symptom", "text_role", "text_weight", "text_pattern", "text_domains", "stack_hash", "step", "phase", "trace_id", "span_id", "attributes", "attempt")
    class TextDomainsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Attribute
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Attribute, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    EVENT_NAME_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SYMPTOM_FIELD_NUMBER: _ClassVar[int]
    TEXT_ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TEXT_PATTERN_FIELD_NUMBER: _ClassVar[int]
    TEXT_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    STACK_HASH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    id: str
    identity: Identity
    time_ns: int
    received_ns: int
    event_name: str
    severity: int
    body: str
    exception: ExceptionInfo
    fingerprint: str
    symptom: str
    text_role: str
    text_weight: float
    text_pattern: str
    text_domains: _containers.ScalarMap[str, float]
    stack_hash: str
    step: int
    phase: str
    trace_id: str
    span_id: str
    attributes: _containers.MessageMap[str, Attribute]
    attempt: int
    def __init__(self, id: _Optional[str] = ..., identity: _Optional[_Union[Identity, _Mapping]] = ..., time_ns: _Optional[int] = ..., received_ns: _Optional[int] = ..., event_name: _Optional[str] = ..., severity: _Optional[int] = ..., body: _Optional[str] = ..., exception: _Optional[_Union[ExceptionInfo, _Mapping]] = ..., fingerprint: _Optional[str] = ..., symptom: _Optional[str] = ..., text_role: _Optional[str] = ..., text_weight: _Optional[float] = ..., text_pattern: _Optional[str] = ..., text_domains: _Optional[_Mapping[str, float]] = ..., stack_hash: _Optional[str] = ..., step: _Optional[int] = ..., phase: _Optional[str] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., attributes: _Optional[_Mapping[str, Attribute]] = ..., attempt: _Optional[int] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("id", "identity", "detector", "symptom", "time_ns", "received_ns", "step", "metric", "score", "text", "numbers", "opens", "ended")
    class NumbersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    DETECTOR_FIELD_NUMBER: _ClassVar[int]
    SYMPTOM_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    OPENS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    id: str
    identity: Identity
    detector: str
    symptom: str
    time_ns: int
    received_ns: int
    step: int
    metric: str
    score: float
    text: str
    numbers: _containers.ScalarMap[str, float]
    opens: bool
    ended: bool
    def __init__(self, id: _Optional[str] = ..., identity: _Optional[_Union[Identity, _Mapping]] = ..., detector: _Optional[str] = ..., symptom: _Optional[str] = ..., time_ns: _Optional[int] = ..., received_ns: _Optional[int] = ..., step: _Optional[int] = ..., metric: _Optional[str] = ..., score: _Optional[float] = ..., text: _Optional[str] = ..., numbers: _Optional[_Mapping[str, float]] = ..., opens: _Optional[bool] = ..., ended: _Optional[bool] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("id", "tenant", "received_ns", "reason", "signal", "data")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    received_ns: int
    reason: str
    signal: str
    data: bytes
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ..., received_ns: _Optional[int] = ..., reason: _Optional[str] = ..., signal: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class RunRef(_message.Message):
    __slots__ = ("id", "attempt", "name", "owner", "job_id", "command", "log_paths", "world_size", "nodes")
    ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    LOG_PATHS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    id: str
    attempt: int
    name: str
    owner: str
    job_id: str
    command: str
    log_paths: _containers.RepeatedScalarFieldContainer[str]
    world_size: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., attempt: _Optional[int] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., job_id: _Optional[str] = ..., command: _Optional[str] = ..., log_paths: _Optional[_Iterable[str]] = ..., world_size: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class Cause(_message.Message):
    __slots__ = ("domain", "confidence", "domains")
    class DomainsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    domain: str
    confidence: float
    domains: _containers.ScalarMap[str, float]
    def __init__(self, domain: _Optional[str] = ..., confidence: _Optional[float] = ..., domains: _Optional[_Mapping[str, float]] = ...) -> None: ...

class FirstFault(_message.Message):
    __slots__ = ("status", "rank", "scope", "candidates", "local_rank", "node", "gpu_uuid", "pid", "process", "phase", "step", "time", "exception", "trace_id", "stderr_tail")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    status: str
    rank: int
    scope: str
    candidates: _containers.RepeatedScalarFieldContainer[int]
    local_rank: int
    node: str
    gpu_uuid: str
    pid: int
    process: str
    phase: str
    step: int
    time: int
    exception: ExceptionInfo
    trace_id: str
    stderr_tail: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, status: _Optional[str] = ..., rank: _Optional[int] = ..., scope: _Optional[str] = ..., candidates: _Optional[_Iterable[int]] = ..., local_rank: _Optional[int] = ..., node: _Optional[str] = ..., gpu_uuid: _Optional[str] = ..., pid: _Optional[int] = ..., process: _Optional[str] = ..., phase: _Optional[str] = ..., step: _Optional[int] = ..., time: _Optional[int] = ..., exception: _Optional[_Union[ExceptionInfo, _Mapping]] = ..., trace_id: _Optional[str] = ..., stderr_tail: _Optional[_Iterable[str]] = ...) -> None: ...

class RankRole(_message.Message):
    __slots__ = ("rank", "role", "why")
    RANK_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    rank: int
    role: str
    why: str
    def __init__(self, rank: _Optional[int] = ..., role: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("id", "kind", "text", "rank", "node", "time", "source", "role")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    text: str
    rank: int
    node: str
    time: int
    source: str
    role: str
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ..., rank: _Optional[int] = ..., node: _Optional[str] = ..., time: _Optional[int] = ..., source: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class Fingerprint(_message.Message):
    __slots__ = ("version", "id", "stack_hash")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STACK_HASH_FIELD_NUMBER: _ClassVar[int]
    version: int
    id: str
    stack_hash: str
    def __init__(self, version: _Optional[int] = ..., id: _Optional[str] = ..., stack_hash: _Optional[str] = ...) -> None: ...

class History(_message.Message):
    __slots__ = ("first_seen", "count_24h", "count_7d", "runs", "same_node", "group", "why")
    FIRST_SEEN_FIELD_NUMBER: _ClassVar[int]
    COUNT_24H_FIELD_NUMBER: _ClassVar[int]
    COUNT_7D_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    SAME_NODE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    first_seen: int
    count_24h: int
    count_7d: int
    runs: _containers.RepeatedScalarFieldContainer[str]
    same_node: int
    group: str
    why: str
    def __init__(self, first_seen: _Optional[int] = ..., count_24h: _Optional[int] = ..., count_7d: _Optional[int] = ..., runs: _Optional[_Iterable[str]] = ..., same_node: _Optional[int] = ..., group: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class Impact(_message.Message):
    __slots__ = ("gpus", "idle_s", "gpu_hours_lost", "last_checkpoint_step", "steps_lost")
    GPUS_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    GPU_HOURS_LOST_FIELD_NUMBER: _ClassVar[int]
    LAST_CHECKPOINT_STEP_FIELD_NUMBER: _ClassVar[int]
    STEPS_LOST_FIELD_NUMBER: _ClassVar[int]
    gpus: int
    idle_s: float
    gpu_hours_lost: float
    last_checkpoint_step: int
    steps_lost: int
    def __init__(self, gpus: _Optional[int] = ..., idle_s: _Optional[float] = ..., gpu_hours_lost: _Optional[float] = ..., last_checkpoint_step: _Optional[int] = ..., steps_lost: _Optional[int] = ...) -> None: ...

class Advice(_message.Message):
    __slots__ = ("text", "because")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    text: str
    because: str
    def __init__(self, text: _Optional[str] = ..., because: _Optional[str] = ...) -> None: ...

class Incident(_message.Message):
    __slots__ = ("id", "revision", "tenant", "run", "number", "state", "severity", "page", "title", "symptom", "family", "layer", "seen", "time_pattern", "cause", "first_fault", "ranks", "evidence", "not_seen", "fingerprint", "history", "impact", "advice", "recurrences", "attempts", "opened_at", "updated_at", "resolved_at", "resolved_why")
    ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SYMPTOM_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    TIME_PATTERN_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FAULT_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    NOT_SEEN_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    IMPACT_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    RECURRENCES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_AT_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    revision: int
    tenant: str
    run: RunRef
    number: int
    state: str
    severity: str
    page: bool
    title: str
    symptom: str
    family: str
    layer: str
    seen: str
    time_pattern: str
    cause: Cause
    first_fault: FirstFault
    ranks: _containers.RepeatedCompositeFieldContainer[RankRole]
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    not_seen: _containers.RepeatedScalarFieldContainer[str]
    fingerprint: Fingerprint
    history: History
    impact: Impact
    advice: _containers.RepeatedCompositeFieldContainer[Advice]
    recurrences: int
    attempts: _containers.RepeatedScalarFieldContainer[int]
    opened_at: int
    updated_at: int
    resolved_at: int
    resolved_why: str
    def __init__(self, id: _Optional[str] = ..., revision: _Optional[int] = ..., tenant: _Optional[str] = ..., run: _Optional[_Union[RunRef, _Mapping]] = ..., number: _Optional[int] = ..., state: _Optional[str] = ..., severity: _Optional[str] = ..., page: _Optional[bool] = ..., title: _Optional[str] = ..., symptom: _Optional[str] = ..., family: _Optional[str] = ..., layer: _Optional[str] = ..., seen: _Optional[str] = ..., time_pattern: _Optional[str] = ..., cause: _Optional[_Union[Cause, _Mapping]] = ..., first_fault: _Optional[_Union[FirstFault, _Mapping]] = ..., ranks: _Optional[_Iterable[_Union[RankRole, _Mapping]]] = ..., evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., not_seen: _Optional[_Iterable[str]] = ..., fingerprint: _Optional[_Union[Fingerprint, _Mapping]] = ..., history: _Optional[_Union[History, _Mapping]] = ..., impact: _Optional[_Union[Impact, _Mapping]] = ..., advice: _Optional[_Iterable[_Union[Advice, _Mapping]]] = ..., recurrences: _Optional[int] = ..., attempts: _Optional[_Iterable[int]] = ..., opened_at: _Optional[int] = ..., updated_at: _Optional[int] = ..., resolved_at: _Optional[int] = ..., resolved_why: _Optional[str] = ...) -> None: ...

class RankStatus(_message.Message):
    __slots__ = ("rank", "process", "node", "local_rank", "pid", "gpu_uuid", "state", "state_reason", "step", "phase", "last_seen_ns")
    RANK_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_REASON_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_NS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    process: str
    node: str
    local_rank: int
    pid: int
    gpu_uuid: str
    state: str
    state_reason: str
    step: int
    phase: str
    last_seen_ns: int
    def __init__(self, rank: _Optional[int] = ..., process: _Optional[str] = ..., node: _Optional[str] = ..., local_rank: _Optional[int] = ..., pid: _Optional[int] = ..., gpu_uuid: _Optional[str] = ..., state: _Optional[str] = ..., state_reason: _Optional[str] = ..., step: _Optional[int] = ..., phase: _Optional[str] = ..., last_seen_ns: _Optional[int] = ...) -> None: ...

class RunStatus(_message.Message):
    __slots__ = ("tenant", "run", "revision", "name", "owner", "job_id", "command", "launcher", "log_paths", "world_size", "nodes", "attempt", "attempts_started_ns", "state", "state_reason", "started_ns", "updated_ns", "ended_ns", "step", "ranks", "incidents", "notes")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    LAUNCHER_FIELD_NUMBER: _ClassVar[int]
    LOG_PATHS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_REASON_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    INCIDENTS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    run: str
    revision: int
    name: str
    owner: str
    job_id: str
    command: str
    launcher: str
    log_paths: _containers.RepeatedScalarFieldContainer[str]
    world_size: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    attempt: int
    attempts_started_ns: _containers.RepeatedScalarFieldContainer[int]
    state: str
    state_reason: str
    started_ns: int
    updated_ns: int
    ended_ns: int
    step: int
    ranks: _containers.RepeatedCompositeFieldContainer[RankStatus]
    incidents: _containers.RepeatedScalarFieldContainer[str]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenant: _Optional[str] = ..., run: _Optional[str] = ..., revision: _Optional[int] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., job_id: _Optional[str] = ..., command: _Optional[str] = ..., launcher: _Optional[str] = ..., log_paths: _Optional[_Iterable[str]] = ..., world_size: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., attempt: _Optional[int] = ..., attempts_started_ns: _Optional[_Iterable[int]] = ..., state: _Optional[str] = ..., state_reason: _Optional[str] = ..., started_ns: _Optional[int] = ..., updated_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ..., step: _Optional[int] = ..., ranks: _Optional[_Iterable[_Union[RankStatus, _Mapping]]] = ..., incidents: _Optional[_Iterable[str]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...
