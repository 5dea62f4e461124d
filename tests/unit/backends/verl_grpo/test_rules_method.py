import pytest
from fakes.grpo_plans import MODEL_CONFIG, REMOVED, errors, findings, make_data, make_settings, warnings
from fakes.sft_plans import make_model_folder

from loopai_trainer.backends.verl_grpo.rules_method import CPU_LIMITS

ACTOR, MODEL, REF, ROLLOUT = (
    "actor_rollout_ref.actor", "actor_rollout_ref.model", "actor_rollout_ref.ref", "actor_rollout_ref.rollout",
)  # fmt: skip
CPU = "verl_grpo_cpu_smoke"


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def one(run, code, **plan):
    """The only error, whose code has to be this one."""
    (problem,) = [found for found in findings(run, **plan) if found.severity == "error"]
    assert problem.code == code, problem
    return problem


@pytest.mark.parametrize("name", ["hf", "nonsense", "trtllm", "VLLM", 3])
def test_an_unknown_rollout_is_refused(run, name):
    problem = one(run, "ROLLOUT_UNKNOWN", native={f"{ROLLOUT}.name": name})
    assert repr(name) in problem.message and "vllm, sglang" in problem.message


def test_a_missing_rollout_is_refused(run):
    assert one(run, "ROLLOUT_MISSING", native={f"{ROLLOUT}.name": REMOVED}).field == f"{ROLLOUT}.name"


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_an_engine_has_to_be_installed(run, name):
    settings = make_settings(verl_rollout_backend=name)
    assert errors(run, settings=settings) == []
    problem = one(run, "ROLLOUT_ENGINE_MISSING", settings=settings, without=(name,))
    assert name in problem.message and name in problem.hint


@pytest.mark.parametrize("package", ["ray", "transferqueue", "cachetools", "pyzmq", "msgspec", "fastapi", "uvicorn"])
def test_what_verl_alone_leaves_out_is_missed_here(run, package):
    assert one(run, "PACKAGE_MISSING", without=(package,)).hint.endswith("trainer setup verl")


def test_the_0_8_line_needs_no_transfer_queue(run):
    assert errors(run, version="0.8.0.dev", without=("transferqueue", "msgspec")) == []


def test_flash_attention_has_to_be_installed_or_not_used(run):
    assert "sdpa" in one(run, "FLASH_ATTN_MISSING", without=("flash-attn",)).hint
    changes = {f"{MODEL}.override_config.attn_implementation": "sdpa"}
    assert errors(run, without=("flash-attn",), changes=changes) == []


@pytest.mark.parametrize("estimator", ["gae", "foo", "rloo", None])
def test_something_else_than_grpo_is_refused(run, estimator):
    assert errors(run, native={"algorithm.adv_estimator": estimator}) == ["NOT_GRPO"]
    assert errors(run, native={"algorithm.adv_estimator": "grpo_vectorized"}) == []


def test_a_distance_that_counts_twice_is_told(run):
    assert warnings(run, changes={"algorithm.use_kl_in_reward": True}) == ["KL_TWICE"]
    changes = {"algorithm.use_kl_in_reward": True, f"{ACTOR}.use_kl_loss": False}
    assert warnings(run, changes=changes) == []


@pytest.mark.parametrize(
    ("version", "key", "wrong", "right"),
    [
        ("0.9.1", "reward.reward_manager.name", "prime", "dapo"),
        ("0.9.1", "reward.reward_manager.name", "batch", "naive"),
        ("0.8.0.dev", "reward_model.reward_manager", "gdpo", "prime"),
    ],
)
def test_reward_managers_by_version(run, version, key, wrong, right):
    problem = one(run, "REWARD_MANAGER_UNKNOWN", version=version, changes={key: wrong})
    assert right in problem.message
    assert errors(run, version=version, changes={key: right}) == []


def test_a_reward_manager_of_one_s_own_names_its_file(run):
    changes = {"reward.reward_manager.source": "importlib", "reward.reward_manager.name": "mine"}
    assert one(run, "REWARD_MANAGER_UNKNOWN", changes=changes).field == "reward.reward_manager.source"


@pytest.mark.parametrize("place", [ACTOR, REF])
def test_both_names_of_the_strategy_agree(run, place):
    problem = one(run, "STRATEGY_DIFFERS", changes={f"{place}.fsdp_config.strategy": "fsdp"})
    assert problem.hint == f"set {place}.fsdp_config.strategy: fsdp2"


def test_the_reference_s_strategy_counts_only_with_a_reference(run):
    changes = {f"{REF}.fsdp_config.strategy": "fsdp", f"{ACTOR}.use_kl_loss": False}
    assert errors(run, changes=changes) == []


@pytest.mark.parametrize("key", [f"{MODEL}.lora_rank", f"{MODEL}.lora.rank"])
def test_lora_is_refused_since_it_would_not_be_exported(run, key):
    assert "without the trained adapter" in one(run, "LORA_NOT_EXPORTED", changes={key: 8}).message
    assert errors(run, changes={key: 0}) == []


@pytest.mark.parametrize("part", ["vision_config", "audio_config"])
def test_a_model_that_reads_more_than_text_is_refused(run, part):
    model = make_model_folder(run.parent / "vlm", {**MODEL_CONFIG, part: {"depth": 2}})
    assert part in one(run, "MODEL_MULTIMODAL", model=model).message


@pytest.mark.parametrize(
    ("column", "codes"), [("images", ["DATA_MULTIMODAL"] * 2), ("videos", ["DATA_MULTIMODAL"] * 2), ("extra", [])]
)
def test_rows_with_images_are_refused(run, column, codes):
    assert errors(run, data=make_data(run, extra=column)) == codes


def test_a_column_of_another_name_may_hold_images(run):
    data = make_data(run, extra="photos")
    assert errors(run, data=data, changes={"data.image_key": "photos"}) == ["DATA_MULTIMODAL"] * 2


def test_a_snapshot_that_is_gone_breaks_no_rule(run):
    data = make_data(run)
    for split in data.splits:
        (run / "prepared_data" / f"{split.where}.parquet").write_bytes(b"no parquet")
    assert errors(run, data=data) == []


class TestCpuSmoke:
    def test_the_template_makes_a_sound_plan(self, run):
        assert findings(run, template=CPU) == []

    def test_its_rollout_goes_with_the_cpu_alone(self, run):
        assert "CPU_ROLLOUT" in errors(run, native={f"{ROLLOUT}.name": "loopai_cpu"})
        assert "CPU_ROLLOUT" in errors(run, template=CPU, native={f"{ROLLOUT}.name": "vllm"})
        assert "CPU_ROLLOUT" in errors(run, template=CPU, settings=make_settings(verl_rollout_backend="vllm"))

    @pytest.mark.parametrize(
        ("changes", "field", "fits"),
        [
            ({"trainer.total_training_steps": 21, "trainer.total_epochs": 2}, "trainer.total_training_steps", False),
            ({"trainer.total_training_steps": 20, "trainer.total_epochs": 2}, None, True),
            ({f"{ROLLOUT}.n": 18}, "data.train_batch_size", False),
            ({f"{ROLLOUT}.n": 16}, None, True),
            ({"data.max_response_length": 1921}, "data.max_response_length", False),
            ({"data.max_response_length": 1920}, None, True),
        ],
    )
    def test_only_a_small_plan(self, run, changes, field, fits):
        found = [p for p in findings(run, template=CPU, changes=changes) if p.severity == "error"]
        assert [(p.code, p.field) for p in found] == ([] if fits else [("CPU_NOT_SMOKE", field)])

    def test_only_few_ranks(self, run):
        settings = make_settings(nproc_per_node=3)
        changes = {"data.train_batch_size": 6, f"{ACTOR}.ppo_mini_batch_size": 6, "ray_kwargs.ray_init.num_cpus": 11}
        assert errors(run, template=CPU, settings=settings, changes=changes) == ["CPU_NOT_SMOKE"]
        assert errors(run, template=CPU, settings=make_settings(nproc_per_node=2)) == []

    def test_only_a_small_model(self, run, monkeypatch):
        monkeypatch.setitem(CPU_LIMITS, "megabytes", -1)
        assert errors(run, template=CPU) == ["CPU_NOT_SMOKE"]

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (f"{ACTOR}.strategy", "fsdp"), (f"{MODEL}.use_remove_padding", True), (f"{ACTOR}.use_torch_compile", True),
            (f"{MODEL}.override_config.attn_implementation", "flash_attention_2"),
            (f"{MODEL}.override_config.attn_implementation", REMOVED),
        ],
    )  # fmt: skip
    def test_what_does_not_work_on_a_cpu(self, run, key, value):
        found = [p for p in findings(run, template=CPU, native={key: value}) if p.severity == "error"]
        assert ("CPU_KEY", key) in [(p.code, p.field) for p in found]

    def test_only_verl_0_9_trains_on_a_cpu(self, run):
        changes = {"reward": REMOVED, "transfer_queue": REMOVED}
        assert errors(run, template=CPU, changes=changes, version="0.8.0.dev") == ["CPU_NOT_SMOKE"]

    def test_it_names_no_devices(self, run):
        assert "DEVICES_DIFFER" in errors(run, template=CPU, launch={"devices": "0"})
