"""Where a plan trains besides this host: what `loopai.launch` says of a Ray cluster or of further nodes.

Light on purpose: the worker imports it before training's exec.
"""

from loopai_trainer.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

RAY_JOBS = "ray_jobs"
HERE = ("local", "inline")
EXECUTORS = (*HERE, RAY_JOBS)

MASTER = ("MASTER_ADDR", "MASTER_PORT")
"""Where the ranks of several nodes meet, if no cluster says so: names of torchrun's own variables."""

RAY_KEYS = ("address", "interpreter", "resources")
"""Keys of `loopai.launch` that only a plan for a Ray cluster has."""

DRIVER = "loopai-trainer: "
"""Beginning of the lines of the driver on a cluster in training's output; those that follow are its words."""
FAILED = "the cluster failed: "
HEAD_GONE = "the cluster's head cannot be reached"
HEAD_BACK = "the cluster's head can be reached again"

_MOST_NODES = 4096
_SHOWN = 20


def on_cluster(launch: "Mapping[str, Any]") -> bool:
    """Whether the worker runs as a job of a Ray cluster."""
    return launch.get("executor") == RAY_JOBS


def by_hand(launch: "Mapping[str, Any]") -> bool:
    """Whether training spans several nodes without a cluster: one `run-prepared --node-rank` on each."""
    return launch.get("executor") in HERE and int(launch.get("nodes") or 1) > 1


def placed(block: "Mapping[str, Any]", values: "Mapping[str, Any]", interpreter: str) -> "dict[str, Any]":
    """The launch block with what the settings say of nodes and cluster; `interpreter`: the Python of this program.

    Raises ConfigError for resources that are no JSON object.
    """
    nodes = values.get("nodes")
    found = {**block, "nodes": 1 if nodes is None else nodes}
    if values.get("executor") != RAY_JOBS:
        meeting = {"MASTER_ADDR": values.get("master_addr"), "MASTER_PORT": values.get("master_port")}
        said = {name: str(value) for name, value in meeting.items() if value} if found["nodes"] > 1 else {}
        return {**found, "env": {**found["env"], **said}}
    return {
        "executor": RAY_JOBS,
        "address": str(values.get("ray_address") or ""),
        "interpreter": str(values.get("ray_interpreter") or interpreter),
        "resources": _resources(values.get("node_resources")),
        **{name: value for name, value in found.items() if name != "executor"},
    }


def _resources(value: object) -> object:
    if not isinstance(value, str):
        return value or {"CPU": 1}
    import json

    try:
        return json.loads(value)
    except ValueError as error:
        raise ConfigError(
            f"node_resources is no JSON: {error}", hint="write for example --option node_resources='{\"CPU\": 4}'"
        ) from None


def not_asked_text(names: "Sequence[object]") -> str:
    """What has to be known of nodes that could take part, but were not asked what they see of the plan's files."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = ", ".join(str(name) for name in names[:_SHOWN]) + more
    return (
        f"{len(names)} nodes of the cluster were not asked before the start whether they see the same files, "
        f"interpreter and backend, since the time for that was up: {shown}"
    )


def failure(log_tail: "Sequence[str]") -> "tuple[str, str] | None":
    """(cause, advice) if the driver said that it lost a node or the head; what its ranks say then only follows."""
    cause = ""
    for line in log_tail:
        said = line[len(DRIVER) :].strip() if line.startswith(DRIVER) else ""
        if said.startswith(FAILED):
            cause = said[len(FAILED) :]
            break
        if said.startswith(HEAD_GONE):
            cause = said
        elif said.startswith(HEAD_BACK):
            cause = ""
    return (cause, "see to the cluster, then prepare a new version to train again") if cause else None


def device_count(launch: "Mapping[str, Any]") -> int:
    """GPUs that training takes on each node."""
    return len([name for name in str(launch.get("devices") or "").split(",") if name.strip()])


def bundle(launch: "Mapping[str, Any]") -> "dict[str, float]":
    """What training takes of each node, by Ray's names of resources."""
    found = {str(name): float(amount) for name, amount in (launch.get("resources") or {}).items()}
    count = device_count(launch)
    return {**found, **({"GPU": float(count)} if count else {})}


def faults(launch: "Mapping[str, Any]") -> "Iterator[tuple[str, str, str, str]]":
    """(code, message, hint, field) for each entry of the launch block that cannot mean anything."""
    if launch["executor"] not in EXECUTORS:
        message = f"there is no executor '{launch['executor']}'"
        yield "EXECUTOR_UNKNOWN", message, f"write {' or '.join(EXECUTORS)}", "loopai.launch.executor"
        return
    nodes = launch["nodes"]
    if not 1 <= nodes <= _MOST_NODES:
        yield "NODES", f"loopai.launch.nodes is {nodes}", f"set it to 1 to {_MOST_NODES}", "loopai.launch.nodes"
        return
    if on_cluster(launch):
        yield from _ray_faults(launch)
        return
    for key in RAY_KEYS:
        if key in launch:
            message = f"'loopai.launch.{key}' means nothing to the executor '{launch['executor']}'"
            yield "EXECUTOR_KEYS", message, f"remove it, or set executor: {RAY_JOBS}", f"loopai.launch.{key}"
    if nodes > 1:
        yield from _by_hand_faults(launch)


def _by_hand_faults(launch: "Mapping[str, Any]") -> "Iterator[tuple[str, str, str, str]]":
    missing = [name for name in MASTER if not (launch.get("env") or {}).get(name)]
    if missing:
        message = f"{launch['nodes']} nodes without a cluster, but loopai.launch.env has no {' and no '.join(missing)}"
        hint = "prepare with --option master_addr=HOST --option master_port=PORT (those of rank 0), or on a cluster"
        yield "NODES", message, hint, "loopai.launch.env"


def _ray_faults(launch: "Mapping[str, Any]") -> "Iterator[tuple[str, str, str, str]]":
    yield from _address_faults(launch.get("address"))
    interpreter = launch.get("interpreter")
    if not isinstance(interpreter, str) or not interpreter.startswith("/"):
        message = f"loopai.launch.interpreter is {interpreter!r}, which is no absolute path"
        hint = "name the Python that has loopai-trainer[ray] on every node of the cluster"
        yield "INTERPRETER_INVALID", message, hint, "loopai.launch.interpreter"
    resources = launch.get("resources")
    if not isinstance(resources, dict) or not all(_is_resource(name, amount) for name, amount in resources.items()):
        message = "loopai.launch.resources is no mapping of Ray's resources to numbers above 0"
        yield "RESOURCES_INVALID", message, 'write for example {"CPU": 4}', "loopai.launch.resources"
    elif "GPU" in resources:
        message = "loopai.launch.resources names GPU: the number of GPUs a node comes from the devices"
        yield "RESOURCES_INVALID", message, "name as many --devices as each node is to give", "loopai.launch.resources"
    if not set(MASTER).isdisjoint(launch.get("env") or {}):
        message = "loopai.launch.env names a meeting point, which the cluster chooses itself"
        yield "NODES", message, f"remove {' and '.join(MASTER)}", "loopai.launch.env"


def _address_faults(address: object) -> "Iterator[tuple[str, str, str, str]]":
    field, hint = "loopai.launch.address", "give --ray-address http://HEAD:8265 (the cluster's job server)"
    if not isinstance(address, str) or not address:
        yield "ADDRESS_MISSING", "no Ray cluster is named", hint, field
        return
    scheme, _, place = address.partition("://")
    if scheme not in ("http", "https") or not place.strip("/") or not address.isprintable() or " " in address:
        yield "ADDRESS_INVALID", f"loopai.launch.address is {address!r}, which is no job server's", hint, field
    elif "@" in place or "?" in place or "#" in place:
        message = "loopai.launch.address holds more than host, port and path: a password would stand in the plan"
        yield "ADDRESS_INVALID", message, hint + "; a token is read from RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH", field


def _is_resource(name: object, amount: object) -> bool:
    number = isinstance(amount, int | float) and not isinstance(amount, bool) and 0 < amount < float("inf")
    return isinstance(name, str) and bool(name) and number
