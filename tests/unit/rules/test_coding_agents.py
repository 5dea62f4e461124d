import pytest

from loopai_trainer.rules import coding_agents


@pytest.mark.parametrize("name", coding_agents.VARIABLES)
def test_each_variable_is_a_sign(name):
    assert coding_agents.signs({name: "1"}, []) == [f"the environment variable {name} is set"]
    assert coding_agents.signs({name: ""}, []) == []


def test_what_people_set_is_none():
    people = {
        "CODEX_HOME": "/home/me/.codex",
        "CURSOR_TRACE_ID": "x",
        "SSH_AGENT_PID": "7",
        "AGENT_NAME": "ci",
        "TERM": "xterm",
    }
    assert coding_agents.signs(people, [["bash"], ["sshd: me@pts/0"], ["/usr/lib/systemd/systemd"], []]) == []
    assert coding_agents.variables(people) == []


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["claude"], "claude"),
        (["/home/me/.local/bin/claude", "--resume"], "claude"),
        (["node", "/usr/lib/node_modules/@openai/codex/bin/codex.js"], "codex"),
        (["node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"], "@anthropic-ai/claude-code"),
        (["/opt/codex/codex", "exec"], "codex"),
        (["python", "/usr/bin/aider"], "aider"),
    ],
)
def test_a_program_above_is_a_sign(words, name):
    assert coding_agents.signs({}, [["bash"], words]) == [f"'{name}' runs above this command"]


def test_a_file_that_only_mentions_one_is_none():
    assert coding_agents.signs({}, [["vim", "notes-on-claude.md"], ["less", "x", "/usr/bin/claude"]]) == []


def test_all_signs_are_named():
    assert len(coding_agents.signs({"CLAUDECODE": "1", "AI_AGENT": "x"}, [["claude"]])) == 3
