import pytest
from fakes.verl_trees import make_verl, versions_of

from loopai_trainer.backends.verl_grpo.template import REFUSED, template_problems
from loopai_trainer.files import templates
from loopai_trainer.rules import yaml_text


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    return versions_of(make_verl(tmp_path_factory.mktemp("template")))


@pytest.fixture(scope="module")
def old_versions(tmp_path_factory):
    return versions_of(make_verl(tmp_path_factory.mktemp("old"), "0.8"), "0.8.0.dev")


def judge(versions, text):
    document = yaml_text.load(text, "t.yaml")
    return template_problems(document.values, document.lines, versions)


OWN = [template for template in templates.list_templates("grpo") if template.name.startswith("verl_")]


@pytest.mark.parametrize("template", OWN, ids=lambda template: template.name)
def test_bundled_templates_have_no_problems(versions, template):
    with open(template.path, encoding="utf-8") as file:
        assert judge(versions, file.read()) == []


def test_everything_is_told_at_once_by_line(versions):
    problems = judge(
        versions,
        """\
data:
  train_batch_size: '8'
  max_prompt_lenght: 9
  shuffle: 'false'
actor_rollout_ref:
  actor:
    optim: {lr: 1e-6x}
    ppo_mini_batch_size: 4.0
  rollout: {temperature: 0, n: 2}
""",
    )
    assert [(p.line, p.code, p.field, p.hint) for p in problems] == [
        (2, "WRONG_TYPE", "data.train_batch_size", "write train_batch_size: 8 (without quotes)"),
        (3, "UNKNOWN_KEY", "data.max_prompt_lenght", "did you mean data.max_prompt_length?"),
        (4, "WRONG_TYPE", "data.shuffle", "write shuffle: false (without quotes)"),
        (7, "WRONG_TYPE", "actor_rollout_ref.actor.optim.lr", "correct the value"),
        (8, "WRONG_TYPE", "actor_rollout_ref.actor.ppo_mini_batch_size", "write ppo_mini_batch_size: 4"),
        (9, "VALUE_OUT_OF_RANGE", "actor_rollout_ref.rollout.temperature", "give a number in that range"),
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("learning_rate: 1.0e-6", "it is called actor_rollout_ref.actor.optim.lr"),
        ("model_name_or_path: /m", "nothing: --model sets it"),
        ("train_batch_size: 8", "did you mean data.train_batch_size?"),
        ("trainr: {nnodes: 1}", "did you mean trainer?"),
        ("zzz: 1", "remove zzz"),
        ("trainer: {zzz: 1}", "remove trainer.zzz"),
        ("data.train_batch_size: 8", "write it as nested mappings"),
        ("trainer: {v1.trainer_mode: sync}", "write it as nested mappings"),
    ],
)
def test_unknown_keys_get_the_most_likely_one(versions, text, hint):
    (problem,) = judge(versions, text)
    assert (problem.code, problem.hint, problem.line) == ("UNKNOWN_KEY", hint, 1)


@pytest.mark.parametrize(
    "text",
    [
        "actor_rollout_ref: {model: {override_config: {attn_implementation: eager, a: {b: 1}}}}",
        "actor_rollout_ref: {rollout: {engine_kwargs: {vllm: {enable_lora: false}, other: {x: 1}}}}",
        "actor_rollout_ref: {rollout: {repetition_penalty: 1.1}}",
        "actor_rollout_ref: {actor: {optim: {override_optimizer_config: {eps: 1.0e-8}}}}",
        "data: {apply_chat_template_kwargs: {enable_thinking: false}}",
        "reward: {custom_reward_function: {reward_kwargs: {a.b: 1}}}",
        "ray_kwargs: {ray_init: {num_gpus: 2, include_dashboard: false}}",
        "trainer: {v1: {sampler: {sampler_kwargs: {x: 1}}}}",
        "trainer: {total_training_steps: null, max_actor_ckpt_to_keep: 3}",
        "data: {train_files: [a.parquet, b.parquet]}",
        "actor_rollout_ref: {rollout: {top_p: 0.9, max_model_len: 100}}",
        "loopai: {x: 1}",
        "result: {selection_metric: x}",
    ],
)
def test_places_that_verl_leaves_open_take_anything(versions, text):
    assert judge(versions, text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainer: {total_epochs: null}", "has no value"),
        ("trainer: {total_epochs: true}", "the truth value true, it has to be a whole number"),
        ("trainer: {total_epochs: {a: 1}}", "the mapping"),
        ("trainer: {logger: 3}", "the number 3, it has to be a list or text"),
        ("data: 3", "it has to be a mapping"),
        ("actor_rollout_ref: {rollout: {repetition_penalty: big}}", "it has to be a number"),
        ("actor_rollout_ref: {rollout: {max_model_len: 1.5}}", "it has to be a whole number"),
        ("actor_rollout_ref: {actor: {optim: {lr: '1e-6'}}}", "it has to be a number"),
        ("actor_rollout_ref: {actor: {optim: {lr: 'inf'}}}", "it has to be a number"),
        ("trainer: {total_epochs: '2.5'}", "it has to be a whole number"),
    ],
)
def test_values_of_the_wrong_type(versions, text, message):
    (problem,) = judge(versions, text)
    assert problem.code == "WRONG_TYPE"
    assert message in problem.message


def test_a_number_in_quotes_is_written_as_yaml_reads_it(versions):
    (problem,) = judge(versions, "actor_rollout_ref: {actor: {optim: {lr: '1e-6'}}}")
    assert problem.hint == "write lr: 1.0e-06 (without quotes)"


@pytest.mark.parametrize("key", REFUSED)
def test_what_a_plan_must_not_have(versions, key):
    values = 1
    for part in reversed(key.split(".")):
        values = {part: values}
    (problem,) = template_problems(values, {key: 5}, versions)
    assert (problem.code, problem.field, problem.line) == ("KEY_REFUSED", key, 5)
    assert REFUSED[key] in problem.message


def test_a_refused_key_that_is_null_is_no_fault(versions):
    assert judge(versions, "ray_kwargs: {ray_init: {runtime_env: {py_executable: null}}}") == []


def test_the_other_line_s_keys_are_refused_by_name_alone(versions, old_versions):
    text = "custom_reward_function: {path: /r.py, nmae: f}\nreward: {custom_reward_function: {path: /r.py}}\n"
    assert [(p.code, p.field) for p in judge(versions, text)] == [("OTHER_VERSION_KEY", "custom_reward_function")]
    assert [(p.code, p.field) for p in judge(old_versions, text)] == [
        ("UNKNOWN_KEY", "custom_reward_function.nmae"),
        ("OTHER_VERSION_KEY", "reward"),
    ]
