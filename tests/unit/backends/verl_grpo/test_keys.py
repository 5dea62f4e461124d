import pytest

from loopai_trainer.backends.verl_grpo import keys


@pytest.mark.parametrize(
    ("version", "family"),
    [
        ("0.9.1", "0.9"),
        ("0.9.0.dev3", "0.9"),
        ("1.0", "0.9"),
        ("0.8.0.dev", "0.8"),
        ("0.8.1", "0.8"),
        ("0.7.2", "0.8"),
        ("x", "0.8"),
    ],
)
def test_the_version_decides_the_family(version, family):
    assert keys.family(version) == family


@pytest.mark.parametrize(
    ("version", "severities"),
    [
        ("0.9.1", []),
        ("0.8.0.dev", []),
        ("0.7.2", ["error"]),
        ("unknown", ["error"]),
        ("0.10.0", ["warning"]),
        ("1.2", ["warning"]),
    ],
)
def test_a_version_that_was_never_tried_is_told(version, severities):
    assert [problem.severity for problem in keys.version_problems(version)] == severities


@pytest.mark.parametrize(
    ("version", "native", "key", "instead"),
    [
        (
            "0.9.1",
            {"custom_reward_function": {"path": "/r.py"}},
            "custom_reward_function",
            "reward.custom_reward_function",
        ),
        ("0.9.1", {"reward_model": {"reward_manager": "dapo"}}, "reward_model", "reward.reward_manager.name"),
        ("0.9.1", {"sandbox_fusion": {"url": "http://x"}}, "sandbox_fusion", "reward.sandbox_fusion"),
        ("0.9.1", {"trainer": {"use_legacy_worker_impl": "auto"}}, "trainer.use_legacy_worker_impl", "remove"),
        ("0.8.0.dev", {"reward": {"num_workers": 1}}, "reward", "custom_reward_function"),
        ("0.8.0.dev", {"trainer": {"use_v1": True}}, "trainer.use_v1", "remove"),
        ("0.8.0.dev", {"transfer_queue": {"enable": True}}, "transfer_queue", "remove"),
        ("0.8.0.dev", {"data": {"gen_batch_size": 4}}, "data.gen_batch_size", "data.train_batch_size"),
    ],
)
def test_a_key_of_the_other_line_is_refused_with_the_right_one(version, native, key, instead):
    (problem,) = keys.other_family(native, {key: 7}, version)
    assert (problem.code, problem.field, problem.line) == ("OTHER_VERSION_KEY", key, 7)
    assert instead in problem.hint
    assert version in problem.message
    assert keys.belongs_to_other(f"{key}.path", version)


@pytest.mark.parametrize(
    ("version", "native"),
    [
        ("0.9.1", {"reward": {"custom_reward_function": {"path": "/r.py"}}, "trainer": {"use_v1": True}}),
        ("0.8.0.dev", {"custom_reward_function": {"path": "/r.py"}, "reward_model": {"reward_manager": "naive"}}),
    ],
)
def test_a_line_s_own_keys_are_let_through(version, native):
    assert list(keys.other_family(native, {}, version)) == []
    assert not keys.belongs_to_other("data.train_files", version)
