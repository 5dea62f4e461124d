"""Everything that can be known of a plan before a device is taken: each rule is a generator of problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopai_trainer.backends.verl_grpo import keys, schedule
from loopai_trainer.backends.verl_grpo.effective import Effective
from loopai_trainer.backends.verl_grpo.facts import Facts, error
from loopai_trainer.backends.verl_grpo.rules_batch import batch_problems
from loopai_trainer.backends.verl_grpo.rules_method import method_problems
from loopai_trainer.backends.verl_grpo.rules_output import output_problems
from loopai_trainer.backends.verl_grpo.rules_parallel import parallel_problems
from loopai_trainer.backends.verl_grpo.tree import read_tree
from loopai_trainer.files.model_folder import read_model_folder
from loopai_trainer.records import Host, Plan, Problem, Versions
from loopai_trainer.rules import cluster, dotted, host_env, launch_env


def check(plan: Plan, versions: Versions, host: Host) -> list[Problem]:
    """All findings, errors first."""
    values = Effective(plan.native, read_tree(versions.package_dir).values)
    rows = plan.loopai["inputs"]["train"].get("rows")
    steps = schedule.compute(values, rows if isinstance(rows, int) else 0)
    model = read_model_folder(str(plan.loopai["inputs"]["model"]["path"]))
    facts = Facts(plan, values, steps, model, versions, host)
    found = [*keys.version_problems(versions.version), *model.problems]
    for rule in (_launch, output_problems, batch_problems, parallel_problems, method_problems):
        found += rule(facts)
    return sorted(found, key=lambda problem: problem.severity)


def _launch(facts: Facts) -> Iterator[Problem]:
    launch: Mapping[str, object] = facts.plan.loopai["launch"]
    yield from (error(*fault) for fault in cluster.faults(facts.plan.loopai["launch"]))
    yield from _cluster(facts)
    if launch["nproc_per_node"] != 1:
        message = f"nproc_per_node is {launch['nproc_per_node']}: verl starts all its processes itself"
        yield error("PROCESSES_INVALID", message, "set it to 1", "loopai.launch.nproc_per_node")
    if facts.is_cpu and launch["devices"]:
        message = f"a CPU smoke plan names devices ({launch['devices']})"
        yield error("DEVICES_DIFFER", message, "set loopai.launch.devices: ''", "loopai.launch.devices")
    yield from (error(*fault) for fault in launch_env.env_faults(facts.plan.loopai["launch"]))
    for message, hint in host_env.faults(facts.plan.loopai["launch"]):
        yield error("ENV_NOT_ALLOWED", message, hint, "loopai.launch.host_env")


def _cluster(facts: Facts) -> Iterator[Problem]:
    """Nodes without a cluster, and what a program that joins a running Ray may not say. Source: ray 2.60 worker.py."""
    launch = facts.plan.loopai["launch"]
    if cluster.by_hand(launch):
        message = f"{launch['nodes']} nodes without a cluster: verl's nodes are those of a Ray cluster"
        yield error("NODES", message, "name one: --executor ray_jobs --ray-address URL", "loopai.launch.nodes")
    if facts.values.whole("trainer.nnodes", 1) != launch["nodes"]:
        message = (
            f"trainer.nnodes ({facts.values.get('trainer.nnodes')}) is not loopai.launch.nodes ({launch['nodes']})"
        )
        yield error("NODES", message, f"set trainer.nnodes: {launch['nodes']}", "trainer.nnodes")
    for name in ("num_cpus", "num_gpus"):
        key = f"ray_kwargs.ray_init.{name}"
        if cluster.on_cluster(launch) and dotted.get(facts.plan.native, key) is not None:
            yield error("RAY_RESOURCES", f"'{key}' cannot be told to a running cluster", "remove it", key)
