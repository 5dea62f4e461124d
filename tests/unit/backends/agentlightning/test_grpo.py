"""The stage grpo: rendered, checked, launched with a stand-in for Agent Lightning's environment, judged and exported."""

import zipfile

import pytest
from fakes.agent_plans import PATHS, drafted, plan

from loopai_trainer import backends
from loopai_trainer.backends.agentlightning import check as rules
from loopai_trainer.backends.agentlightning import keys, verl_checkpoints
from loopai_trainer.records import ApprovedPlan, MetricRow, Versions
from loopai_trainer.rules import dotted
from loopai_trainer.rules import plan as plans

BACKEND = backends.get("agentlightning", "grpo")
DEVICES = {"devices": "0,1"}


def versions(tmp_path, text='self.logger["file"] = 1'):
    folder = tmp_path / "site-packages" / "verl" / "utils"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tracking.py").write_text(text)
    site = (str(tmp_path / "site-packages"),)
    return Versions("agentlightning", "0.3.0", "3.11.7", "", {"verl": "0.6.1"}, "0" * 64, site)


def check(made, tmp_path, **named):
    return rules.check(made, versions(tmp_path, **named))


def test_the_block_is_what_was_asked_with_what_the_launcher_sets(tmp_path):
    native = drafted("grpo", tmp_path, verl={"trainer": {"total_epochs": 7, "logger": ["wandb"], "n_gpus_per_node": 8}})
    block = native["verl"]
    assert dotted.get(block, "actor_rollout_ref.model.path") == "/models/base"
    assert block["trainer"]["total_epochs"] == 7
    assert (block["trainer"]["n_gpus_per_node"], block["trainer"]["logger"]) == (2, ["console", "file"])
    assert block["trainer"]["default_local_dir"] == "/run/checkpoints"
    assert dotted.get(block, "agentlightning.trace_aggregator.level") == "transition"
    assert dotted.get(block, "algorithm.adv_estimator") == "grpo"
    assert native["algorithm"] == {"name": "verl"}


def test_the_bundled_template_is_good(tmp_path):
    assert list(keys.problems(drafted("grpo", tmp_path), {})) == []
    assert check(plan("grpo", tmp_path, launch=DEVICES), tmp_path) == []


@pytest.mark.parametrize("level", ["transition", "trajectory"])
def test_traces_are_aggregated_in_two_ways(tmp_path, level):
    made = plan("grpo", tmp_path, launch=DEVICES)
    dotted.put(made.values["verl"], "agentlightning.trace_aggregator.level", level)
    assert check(made, tmp_path) == []


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("agentlightning.trace_aggregator.level", "story", "AGGREGATOR_INVALID"),
        ("algorithm.adv_estimator", "gae", "ESTIMATOR_INVALID"),
        ("data.train_batch_size", 0, "VALUE_OUT_OF_RANGE"),
        ("data.train_batch_size", 31, "BATCH_INVALID"),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size", 4, "PARALLEL_INVALID"),
        ("actor_rollout_ref.model.lora_rank", "8", "VALUE_OUT_OF_RANGE"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, key, value, code):
    made = plan("grpo", tmp_path, launch=DEVICES)
    dotted.put(made.values["verl"], key, value)
    assert code in [problem.code for problem in check(made, tmp_path)]


def test_rollouts_that_no_gpu_count_divides_are_refused(tmp_path):
    made = plan("grpo", tmp_path, launch=DEVICES)
    dotted.put(made.values["verl"], "actor_rollout_ref.rollout.n", 1)
    dotted.put(made.values["verl"], "data.train_batch_size", 33)
    dotted.put(made.values["verl"], "actor_rollout_ref.actor.ppo_mini_batch_size", 33)
    assert [problem.code for problem in check(made, tmp_path)] == ["BATCH_INVALID"]


def test_a_verl_without_a_file_logger_is_refused(tmp_path):
    found = check(plan("grpo", tmp_path, launch=DEVICES), tmp_path, text="wandb")
    assert [problem.code for problem in found] == ["BACKEND_PAIR_BROKEN"]


def test_one_process_is_no_place_for_reinforcement_learning(tmp_path):
    made = plan("grpo", tmp_path, launch=DEVICES, strategy="shared_memory")
    assert [problem.code for problem in check(made, tmp_path)] == ["STRATEGY_INVALID"]


def test_lora_offload_and_vllm_keys_are_passed_on(tmp_path):
    given = {
        "actor_rollout_ref": {
            "model": {"lora_rank": 16, "lora_alpha": 32, "target_modules": "all-linear"},
            "actor": {"fsdp_config": {"param_offload": True}},
            "rollout": {"engine_kwargs": {"vllm": {"enable_auto_tool_choice": True}}},
        }
    }
    made = plan("grpo", tmp_path, launch=DEVICES, verl=given)
    for key, value in dotted.leaves(given):
        assert dotted.get(made.native["verl"], key) == value
    assert check(made, tmp_path) == []


def test_the_launch_has_devices_and_verls_own_file(tmp_path):
    made = plan("grpo", tmp_path, launch=DEVICES)
    env = BACKEND.launch(ApprovedPlan(made, made.sha256), PATHS, {}).main.env
    assert env["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert env["VERL_FILE_LOGGER_PATH"] == BACKEND.metrics_file(PATHS)


def test_verls_lines_are_training_and_validation(tmp_path):
    lines = [
        b'{"step": 0, "data": {"val/reward": 0.5, "training/global_step": 0}}',
        b'{"step": 1, "data": {"training/reward": 0.25, "actor/grad_norm": null, "training/global_step": 1}}',
    ]
    found = BACKEND.read_metrics(lines)
    assert found[0] == MetricRow(0, "val", {"val/reward": 0.5})
    assert (found[1].kind, found[1].values["training/reward"]) == ("train", 0.25)
    assert found[1].values["actor/grad_norm"] != found[1].values["actor/grad_norm"]
    said = BACKEND.read_log(["(TaskRunner pid=12) Total training steps: 32", "Total training steps: x"])
    assert [(fact.kind, fact.value) for fact in said] == [("total_steps", 32)]


def saved(folder, step, ranks=(0, 1), size=2):
    actor = folder / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    for rank in ranks:
        with zipfile.ZipFile(actor / f"model_world_size_{size}_rank_{rank}.pt", "w") as file:
            file.writestr("x", "y")
    return actor


def test_checkpoints_are_whole_or_say_what_they_lack(tmp_path):
    saved(tmp_path, 2)
    saved(tmp_path, 4, ranks=(0,))
    (saved(tmp_path, 6) / "model_world_size_2_rank_1.pt").write_bytes(b"torn")
    (tmp_path / "global_step_8").mkdir()
    saved(tmp_path, 10)
    (tmp_path / "global_step_10" / "actor" / "model_world_size_4_rank_0.pt").touch()
    found = {one.step: one.why for one in BACKEND.find_checkpoints(str(tmp_path))}
    assert found == {
        2: "",
        4: "1 of 2 shards",
        6: "model_world_size_2_rank_1.pt is no whole shard",
        8: "no shards: pruned, or not saved to the end",
        10: "shards of different world sizes: 2, 4",
    }
    assert BACKEND.final_artefact(str(tmp_path)).path == str(tmp_path / "global_step_2")
    assert not BACKEND.final_artefact(str(tmp_path / "none")).loadable


def test_an_export_is_verls_merger_and_refuses_adapters(tmp_path):
    saved(tmp_path, 2)
    (checkpoint,) = verl_checkpoints.find_checkpoints(str(tmp_path))
    made = plan("grpo", tmp_path, launch=DEVICES)
    command = BACKEND.export(made, checkpoint, "/run/exports/x")
    assert command.argv[1:4] == ("-m", "verl.model_merger", "merge")
    assert BACKEND.export_problems(made, checkpoint) == []
    made = plan("grpo", tmp_path, launch=DEVICES, verl={"actor_rollout_ref": {"model": {"lora_rank": 8}}})
    assert [problem.code for problem in BACKEND.export_problems(made, checkpoint)] == ["EXPORT_LORA"]
    assert backends.get("agentlightning", "apo").export(made, checkpoint, "/x") is None


def test_steps_and_checkpoints_decide_and_not_single_rollouts(tmp_path):
    assert BACKEND.verdict_problems(plan("grpo", tmp_path, launch=DEVICES), str(tmp_path)) == []
    assert BACKEND.makes_model and BACKEND.needs_model


def of_1(folder, **changed):
    """A plan of Agent Lightning 1.x, as prepare drafts it there."""
    made = plan("grpo", folder, launch=DEVICES, **changed)
    values = {**made.values, "loopai": {**made.loopai, "backend": {**made.loopai["backend"], "version": "1.0.2"}}}
    return plans.render(values["loopai"], values["result"], made.native)


def test_1_x_is_a_server_and_a_controller_beside_the_training(tmp_path):
    made = of_1(tmp_path, version="1.0.2", strategy={"name": "cs", "n_runners": 3})
    native = made.native
    assert native["strategy"] == {"name": "split", "n_runners": 3, "port": 0}
    assert (native["tracer"], native["adapter"], native["runner"]) == (None, None, None)
    assert check(made, tmp_path) == []
    found = BACKEND.launch(ApprovedPlan(made, made.sha256), PATHS, {})
    assert [one.argv[-1] for one in (found.main, *found.helpers)] == ["algorithm", "server", "controller"]
    assert found.main.argv[3] == "/run/inputs/agl_one.py"
    assert found.helpers[1].env["PYTHONPATH"] == "/run/inputs"
    assert found.helpers[1].env["LOOPAI_AGENT_PLAN"] == "/run/launch/agl_plan.json"
    assert BACKEND.rehearse(made, versions(tmp_path), PATHS) is None
