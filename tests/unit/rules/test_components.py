import functools
import os
import shutil

import pytest

from loopai_trainer.rules.components import (
    ComponentError,
    bound_arguments,
    build_component,
    factory_is_known,
    find_component,
    is_dotted,
    load_dotted,
    split_spec,
)


class Part:
    def __init__(self, size=1, store=None):
        self.size = size
        self.store = store


class Other:
    pass


def make_part(size=5):
    return Part(size)


def make_other():
    return Other()


NAMES = {"small": Part, "big": "large", "large": make_part, "decimal": "decimal:Decimal"}


def build(spec, **named):
    return build_component(spec, "part", Part, names=NAMES, **named)


def test_every_form_gives_a_part():
    part = Part(9)
    assert build(part) is part
    assert build(Part).size == 1
    assert build(make_part).size == 5
    assert build("small").size == 1
    assert build("big").size == 5  # a name may stand for another one
    assert build({"name": "small", "size": 3}).size == 3
    assert build({"type": "large", "size": 4}).size == 4
    assert build(f"{__name__}:Part", load=lambda path: Part).size == 1


def test_nothing_gives_the_default():
    assert build(None) is None
    assert build(None, default="small").size == 1
    assert build({"size": 7}, default=Part).size == 7
    with pytest.raises(ComponentError, match="no name"):
        build({"size": 7})


def test_what_is_offered_is_given_to_who_takes_it():
    assert build("small", offered={"store": "s", "tracer": "t"}).store == "s"
    assert build({"name": "small", "store": "own"}, offered={"store": "s"}).store == "own"
    assert build("large", offered={"store": "s"}).store is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("tiny", "there is no part 'tiny'"),
        (make_other, "is a Other, not a Part"),
        (3, "is a int, not a Part"),
        ({"name": "small", "colour": 1}, "takes no 'colour'"),
        ({"name": "small", "type": "large"}, "both 'name' and 'type'"),
        ({"name": 3}, "is no text"),
        ({1: 2, "name": "small"}, "no text"),
        ("decimal", "is a Decimal, not a Part"),
        ("no.such.module:X", "cannot be loaded"),
        ("os:no_such_name", "cannot be loaded"),
        ("", "is no text"),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_hint(spec, said):
    with pytest.raises(ComponentError, match=said) as caught:
        build(spec)
    assert caught.value.hint


def test_a_class_of_another_kind_is_not_even_made(tmp_path):
    made = tmp_path / "made"
    spec = {"name": "subprocess:Popen", "args": ["touch", str(made)]}
    with pytest.raises(ComponentError, match="is a Popen, not a Part"):
        build_component(spec, "part", Part)
    assert not made.exists()


@pytest.mark.parametrize("name", ["../../evil:A", ":a", "a:", "a b:c", "a:b()", "a:b:c", ".a:b", "a..b:c"])
def test_what_is_no_path_to_code_is_refused_before_anything_is_imported(name):
    with pytest.raises(ComponentError, match="no path to code"):
        split_spec(name, "tracer")


def test_what_would_be_called_is_found_without_a_call():
    def loud(size=1) -> Part:
        raise AssertionError("it was called")

    class Loud(Part):
        def __init__(self):
            raise AssertionError("it was made")

    part = Part()
    names = {"loud": loud, "class": Loud, "part": part}
    for name in ("loud", "class"):
        assert find_component(name, "part", Part, names=names).what is names[name]
    assert find_component("part", "part", Part, names=names) == (part, {}, True)
    assert find_component(None, "part", Part) is None
    assert bound_arguments(find_component({"name": "loud", "size": 2}, "part", Part, names=names), "part") == {
        "size": 2
    }
    with pytest.raises(ComponentError, match="takes no 'colour'"):
        bound_arguments(find_component({"name": "class", "colour": 2}, "part", Part, names=names), "part")


def test_a_factory_is_known_by_its_module_or_its_annotation():
    def annotated() -> Part: ...

    def by_text() -> "Part": ...

    def wrong() -> Other: ...

    def unresolved() -> "NoSuchName": ...  # noqa: F821

    assert factory_is_known(make_part, __name__, Part) and not factory_is_known(make_part, None, Part)
    assert factory_is_known(annotated, None, Part) and factory_is_known(by_text, None, Part)
    assert factory_is_known(functools.partial(Part, 3), None, Part)
    for make in (os.system, exec, shutil.rmtree, functools.partial(os.system, "x"), wrong, unresolved, functools):
        assert not factory_is_known(make, "another", Part)


def test_an_object_takes_no_arguments():
    with pytest.raises(ComponentError, match="no arguments"):
        build_component({"name": "it", "size": 1}, "part", Part, names={"it": Part()})


def test_what_raises_while_it_is_made_is_told():
    def broken(size):
        raise ValueError(f"no size {size}")

    with pytest.raises(ComponentError, match="broken cannot be made: no size 3"):
        build_component({"name": "it", "size": 3}, "part", Part, names={"it": broken})


def test_a_name_that_stands_for_itself_is_refused():
    with pytest.raises(ComponentError, match="there is no part 'a'"):
        build_component("a", "part", Part, names={"a": "a"})


def test_several_kinds_may_be_expected():
    assert isinstance(build_component(Other, "part", (Part, Other)), Other)
    with pytest.raises(ComponentError, match="Part or Other"):
        build_component(dict, "part", (Part, Other))


def test_a_builtin_that_does_not_say_what_it_takes_is_called():
    assert build_component({"name": "d"}, "part", dict, names={"d": dict}) == {}


def test_specs_from_yaml():
    assert split_spec(None, "part") == (None, {})
    assert split_spec(" small ", "part") == ("small", {})
    assert split_spec({"name": "small", "size": 1}, "part") == ("small", {"size": 1})
    with pytest.raises(ComponentError, match="is a list"):
        split_spec([], "part")
    assert is_dotted("a.b:C") and not is_dotted("small")
    assert load_dotted("os:path.join") is __import__("os").path.join
