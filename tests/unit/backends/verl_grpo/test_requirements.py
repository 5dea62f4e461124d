import re

from loopai_trainer import backends


def test_the_pinned_environment():
    spec = backends.get("verl", "grpo").environment_spec()
    assert (spec.name, spec.conda_name) == ("verl", "verl")
    assert "verl[verl-core]==0.9.1" in spec.requirements
    pins = dict(line.split("==") for line in spec.constraints.splitlines() if not line.startswith("#"))
    for requirement in spec.requirements:
        name = re.split(r"[=\[]", requirement)[0]
        assert name in pins
        assert "==" not in requirement or pins[name] == requirement.split("==")[1]
    assert "+" not in "".join(pins.values())
    assert {"TransferQueue", "cachetools", "mathruler", "ray", "hydra-core", "omegaconf", "tensordict"} <= set(pins)


def test_the_smoke_is_python_that_tries_a_scorer():
    spec = backends.get("verl", "grpo").environment_spec()
    compile(spec.smoke, "smoke", "exec")
    assert "default_compute_score" in spec.smoke
