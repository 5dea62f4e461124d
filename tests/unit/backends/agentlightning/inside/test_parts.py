"""Where the code of a part may come from, and that nothing of it is called before somebody has approved."""

import hashlib
import sys
import types
from importlib import metadata

import pytest
from fakes.agl_site import install

BAD = [
    ("os:system", {"command": "touch {mark}"}),
    ("subprocess:Popen", {"args": ["touch", "{mark}"]}),
    ("subprocess:run", {"args": ["touch", "{mark}"]}),
    ("builtins:exec", {"source": "open('{mark}', 'w')"}),
    ("os:mkdir", {"path": "{mark}"}),
    ("shutil:rmtree", {"path": "{folder}"}),
    ("shutil:copy", {"src": "/etc/hostname", "dst": "{mark}"}),
    ("pathlib:Path.touch", {"self": "{mark}"}),
    ("agentlightning.tracer.base:os.system", {"command": "touch {mark}"}),
    ("agentlightning.tracer.base:make_directory", {"path": "{mark}"}),
]
KINDS = ("tracer", "adapter", "store", "runner", "llm_proxy", "algorithm")


@pytest.fixture
def inside(inside, monkeypatch):
    install(monkeypatch)
    return inside


def pinned(parts, path, text):
    """The plan's entry for a file of that text."""
    path.write_text(text)
    parts.pin({**parts._pinned, str(path): hashlib.sha256(path.read_bytes()).hexdigest()})
    return str(path)


def filled(arguments, tmp_path):
    places = {"mark": str(tmp_path / "mark"), "folder": str(tmp_path / "folder")}

    def fill(value):
        return [fill(one) for one in value] if isinstance(value, list) else value.format(**places)

    return {name: fill(value) for name, value in arguments.items()}


def rehearsed(inside, native, stage="dev"):
    rehearse = inside("agl_rehearse")
    return {problem["field"]: problem for problem in rehearse._problems(native, stage, {})}


def plan(parts, tmp_path, **changed):
    """Keys of a plan whose parts are all good, but for what is given."""
    agent = pinned(parts, tmp_path / "agent.py", "from agentlightning.litagent import LitAgent\nsolve = LitAgent()\n")
    named = {"tracer": "otel", "adapter": "triplet", "store": "memory", "runner": "agent", "algorithm": "baseline"}
    parts_of_plan = {kind: {"name": name} for kind, name in named.items()}
    return {"agent": {"file": agent, "name": "solve"}, **parts_of_plan, "llm_proxy": None, **changed}


class TestNothingOfItIsCalled:
    def test_a_good_plan_has_no_problem(self, inside, tmp_path):
        parts = inside("agl_parts")
        assert rehearsed(inside, plan(parts, tmp_path)) == {}

    @pytest.mark.parametrize(("name", "arguments"), BAD)
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_function_of_any_package_is_refused_and_has_no_effect(self, inside, tmp_path, kind, name, arguments):
        (tmp_path / "folder").mkdir()
        parts = inside("agl_parts")
        native = plan(parts, tmp_path, **{kind: {"name": name, **filled(arguments, tmp_path)}})
        found = rehearsed(inside, native)
        assert list(found) == [kind] and found[kind]["code"] == "COMPONENT_INVALID"
        assert "is not imported" in found[kind]["message"] or "nothing says that it makes one" in found[kind]["message"]
        assert not (tmp_path / "mark").exists() and (tmp_path / "folder").exists()
        with pytest.raises(parts.PartError):  # nor when it runs
            parts.build(native, kind, inside("agl_rehearse")._expected()[kind])
        assert not (tmp_path / "mark").exists() and (tmp_path / "folder").exists()

    def test_a_module_of_another_package_is_not_even_imported(self, inside, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "loud_package.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\nTracer = None\n")
        found = rehearsed(inside, plan(inside("agl_parts"), tmp_path, tracer={"name": "loud_package:Tracer"}))
        assert "is not imported" in found["tracer"]["message"] and "write a file" in found["tracer"]["message"]
        assert not (tmp_path / "mark").exists() and "loud_package" not in sys.modules

    @pytest.mark.parametrize(
        "text",
        [
            "from os import system as make",
            "from shutil import rmtree as make",
            "import functools, os\nmake = functools.partial(os.system, 'touch {mark}')",
            "make = 'os:system'",
            "make = print",
        ],
    )
    def test_a_file_lends_its_name_to_no_function_of_others(self, inside, tmp_path, text):
        parts = inside("agl_parts")
        path = pinned(parts, tmp_path / "tracer.file.py", text.format(mark=tmp_path / "mark") + "\n")
        found = rehearsed(inside, plan(parts, tmp_path, tracer={"file": path, "name": "make"}))
        assert found["tracer"]["code"] == "COMPONENT_INVALID"
        assert not (tmp_path / "mark").exists()

    def test_code_of_the_users_own_is_looked_at_and_made_only_by_the_run(self, inside, tmp_path):
        parts, mark = inside("agl_parts"), tmp_path / "mark"
        text = (
            "from agentlightning.tracer.base import Tracer\n"
            "from agentlightning.algorithm import FastAlgorithm\n"
            "from agentlightning.litagent import LitAgent\n"
            f"def note():\n    with open({str(mark)!r}, 'a') as file:\n        file.write('x')\n"
            "class Mine(Tracer):\n    def __init__(self, size):\n        note()\n"
            "def factory(size):\n    return Mine(size)\n"
            "class Mean(FastAlgorithm):\n    def __init__(self):\n        note()\n"
            "class Agent(LitAgent):\n    def __init__(self):\n        note()\n"
        )
        path = pinned(parts, tmp_path / "mine.py", text)
        for name in ("Mine", "factory"):
            native = plan(
                parts,
                tmp_path,
                tracer={"file": path, "name": name, "size": 1},
                algorithm={"file": path, "name": "Mean"},
                agent={"file": path, "name": "Agent"},
            )
            assert rehearsed(inside, native) == {}
            assert not mark.exists()
            assert type(parts.build(native, "tracer", inside("agl_rehearse")._expected()["tracer"])).__name__ == "Mine"
            assert type(parts.agent(native)).__name__ == "Agent"
            assert mark.read_text() == "xx"
            mark.unlink()
            native["tracer"]["colour"] = native["tracer"].pop("size")
            assert "takes no 'colour'" in rehearsed(inside, native)["tracer"]["message"]

    def test_an_annotated_factory_of_agent_lightning_is_known(self, inside):
        parts = inside("agl_parts")
        found = parts.find({"tracer": "agentlightning.tracer.base:make_tracer"}, "tracer", _tracer(inside))
        assert found.what.__name__ == "make_tracer"


class TestWhereCodeComesFrom:
    def test_a_file_that_the_plan_does_not_pin_is_not_run(self, inside, tmp_path):
        parts = inside("agl_parts")
        path = tmp_path / "mine.py"
        path.write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\nmake = 1\n")
        with pytest.raises(parts.PartError, match="not the file that the plan pins"):
            parts.load_file(str(path), "make")
        pinned(parts, path, "make = 1\n")
        path.write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\nmake = 1\n")  # changed since
        with pytest.raises(parts.PartError, match="not the file that the plan pins"):
            parts.load_file(str(path), "make")
        assert not (tmp_path / "mark").exists()

    def test_what_an_installed_distribution_offers_is_imported(self, inside, tmp_path, monkeypatch):
        parts = inside("agl_parts")
        monkeypatch.syspath_prepend(str(tmp_path))
        text = "from agentlightning.tracer.base import Tracer\nclass Theirs(Tracer):\n    pass\n"
        (tmp_path / "offering_package.py").write_text(text)
        folder = tmp_path / "offering_package-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: offering-package\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(f"[{parts.OFFERS}]\ntheirs = offering_package:Theirs\n")
        assert metadata.entry_points(group=parts.OFFERS)
        made = parts.build({"tracer": {"name": "offering_package:Theirs"}}, "tracer", _tracer(inside))
        assert type(made).__name__ == "Theirs"
        sys.modules.pop("offering_package", None)

    def test_a_file_that_raises_is_told_once_and_leaves_nothing_behind(self, inside, tmp_path):
        parts = inside("agl_parts")
        path = pinned(parts, tmp_path / "tracer.file.py", "raise RuntimeError('no import')\n")
        rehearse = inside("agl_rehearse")
        native = plan(parts, tmp_path, tracer={"file": path, "name": "Mine"})
        found = list(rehearse._problems(native, "dev", {}))
        assert [(one["field"], one["code"]) for one in found] == [("tracer", "COMPONENT_BROKEN")]
        assert parts.module_name(path) not in sys.modules


def test_an_algorithm_that_is_not_fast_is_told_without_making_it(inside, tmp_path):
    parts = inside("agl_parts")
    text = "from agentlightning.algorithm import Algorithm\nclass Slow(Algorithm):\n    def __init__(self):\n        1 / 0\n"
    native = plan(parts, tmp_path, algorithm={"file": pinned(parts, tmp_path / "slow.py", text), "name": "Slow"})
    assert rehearsed(inside, native)["algorithm"]["code"] == "ALGORITHM_NOT_FAST"
    assert rehearsed(inside, native, "apo") == {}


def test_an_agent_whose_class_needs_arguments_is_told(inside, tmp_path):
    parts = inside("agl_parts")
    text = "from agentlightning.litagent import LitAgent\nclass Needy(LitAgent):\n    def __init__(self, what):\n        1 / 0\n"
    native = plan(parts, tmp_path, agent={"file": pinned(parts, tmp_path / "needy.py", text), "name": "Needy"})
    assert "missing a required argument" in rehearsed(inside, native)["agent"]["message"]


def _tracer(inside) -> type:
    return inside("agl_rehearse")._expected()["tracer"]


def test_the_stand_in_is_a_package(inside):
    assert isinstance(sys.modules["agentlightning"], types.ModuleType)
