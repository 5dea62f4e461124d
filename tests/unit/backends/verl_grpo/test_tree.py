import pytest
from fakes.verl_trees import make_verl

from loopai_trainer.backends.verl_grpo.tree import GENERATED, Kind, read_tree
from loopai_trainer.errors import BackendMissing


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return read_tree(str(make_verl(tmp_path_factory.mktemp("tree"))))


@pytest.mark.parametrize(
    ("key", "names", "optional"),
    [
        ("data.train_batch_size", {"int"}, False),
        ("data.filter_overlong_prompts", {"bool"}, False),
        ("data.train_files", {"str", "list"}, True),
        ("trainer.total_training_steps", {"int"}, True),
        ("actor_rollout_ref.actor.optim.lr", {"float"}, False),
        ("actor_rollout_ref.rollout", {"dict"}, False),
        # An int as its default, a float by its dataclass.
        ("actor_rollout_ref.rollout.top_p", {"int", "float"}, False),
        # A later class wins over the one that it inherits from.
        ("actor_rollout_ref.rollout.temperature", {"float"}, False),
        # No default: the annotation says it, in each of its ways of being written.
        ("actor_rollout_ref.rollout.max_model_len", {"int"}, True),
        ("actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", {"int"}, True),
        ("actor_rollout_ref.rollout.name", {"str"}, True),
        ("actor_rollout_ref.rollout.repetition_penalty", {"float"}, True),
        ("distillation.elsewhere.list_or_text", {"list", "str"}, False),
        ("distillation.elsewhere.nested", {"dict"}, True),
        ("distillation.elsewhere.several", {"int", "float"}, True),
        ("distillation.elsewhere.choice", {"str"}, False),
        ("distillation.module.path", {"str"}, True),
        # Classes that are not found say nothing.
        ("distillation.unknown.path", set(), True),
        ("distillation.foreign.path", set(), True),
        # An interpolation, no annotation: known only by name.
        ("actor_rollout_ref.rollout.log_prob_use_dynamic_bsz", set(), True),
    ],
)
def test_types_come_from_defaults_and_dataclasses(tree, key, names, optional):
    assert tree.kinds[key] == Kind(frozenset(names), optional)


def test_it_knows_what_verl_holds(tree):
    assert tree.holds("data.train_batch_size")
    assert tree.holds("model_engine")
    assert not tree.holds("data.train_batch")


def test_a_changed_file_is_read_again(tmp_path):
    package = make_verl(tmp_path)
    assert "data.added" not in read_tree(str(package)).kinds
    path = package / GENERATED
    path.write_text(path.read_text().replace("data:\n", "data:\n  added: 3\n", 1))
    assert read_tree(str(package)).kinds["data.added"] == Kind(frozenset(("int",)), False)


@pytest.mark.parametrize("text", [None, "- a\n- b\n", "a: [", "a: 1\nb"])
def test_a_tree_that_is_not_there_or_none_is_a_broken_backend(tmp_path, text):
    package = make_verl(tmp_path)
    if text is None:
        (package / GENERATED).unlink()
    else:
        (package / GENERATED).write_text(text)
    with pytest.raises(BackendMissing) as caught:
        read_tree(str(package))
    assert caught.value.code == "BACKEND_BROKEN"
    assert str(package) in caught.value.message


def test_a_dataclass_file_that_is_no_python_is_a_broken_backend(tmp_path):
    package = make_verl(tmp_path)
    (package / "workers" / "config" / "rollout.py").write_text("class :")
    with pytest.raises(BackendMissing):
        read_tree(str(package))
