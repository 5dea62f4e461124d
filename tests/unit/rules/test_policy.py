import pytest

from loopai_trainer.errors import ApprovalError
from loopai_trainer.rules import policy
from loopai_trainer.rules.policy import Requirement


def test_the_strictest_wins_whatever_the_order():
    hash_level, terminal = Requirement("hash", "a"), Requirement("terminal", "b")
    for order in ([hash_level, terminal], [terminal, hash_level]):
        found = policy.strictest(order)
        assert (found.level, found.origin) == ("terminal", "b")
    assert policy.strictest([hash_level]).level == "hash"
    assert policy.strictest([]).level == "hash"
    assert policy.strictest([terminal, Requirement("terminal", "later")]).origin == "b"


@pytest.mark.parametrize("level", policy.LEVELS)
def test_a_policy_file_asks_for_a_level(level):
    found = policy.read(f"# ours\napproval_require: {level}\n", "/etc/p.yaml")
    assert (found.level, found.origin) == (level, "/etc/p.yaml")


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "- terminal\n", "approval_require: terminal\napproval_require: hash\n", "approval_require:\n",
     "approval_require: Terminal\n", "approval_require: [terminal]\n", "approval_requires: terminal\n",
     "approval_require: terminal\nextra: 1\n", "approval_require: 'terminal\n", "approval_require: ${x}\n", "{}\n"],
)  # fmt: skip
def test_what_is_not_understood_whole_is_refused(text):
    with pytest.raises(ApprovalError) as caught:
        policy.read(text, "/etc/p.yaml")
    assert (caught.value.code, caught.value.exit_code) == ("POLICY_INVALID", 4)
    assert "/etc/p.yaml" in caught.value.message
