"""The bundle for coding agents: its form, and that nothing in it says what the program does not."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer
import yaml
from fakes.skill import PAGES, REFERENCES, ROOT, SKILL, blocks, codes, section, setting_line, settings, spans

from loopai_trainer import errors
from loopai_trainer.backends.verl_grpo.fields import PRESETS
from loopai_trainer.cli.app import app
from loopai_trainer.files import templates
from loopai_trainer.rules import answer_schemas
from loopai_trainer.version import __version__

COMMANDS = typer.main.get_command(app).commands
TEXT = (SKILL / "SKILL.md").read_text()
PLUGINS = (ROOT / ".claude-plugin" / "plugin.json", ROOT / ".codex-plugin" / "plugin.json")
MARKETS = (ROOT / ".claude-plugin" / "marketplace.json", ROOT / ".agents" / "plugins" / "marketplace.json")
MANIFESTS = (*PLUGINS, *MARKETS, ROOT / "hooks" / "hooks.json")
TOPICS = {"approval", "sft", "grpo", "errors", "recovery", "config-keys"}


def by_name(path):
    return path.name if path.parent in (SKILL, REFERENCES) else str(path.relative_to(ROOT))


def header(path):
    _, text, _ = path.read_text().split("---\n", 2)
    return yaml.safe_load(text)


class TestForm:
    @pytest.mark.parametrize("folder", [SKILL, ROOT], ids=["skill", "root"])
    def test_the_header_keeps_the_limits_of_the_specification(self, folder):
        found = header(folder / "SKILL.md")
        allowed = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
        assert found.keys() <= allowed
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", found["name"])
        assert len(found["name"]) <= 64
        assert 0 < len(found["description"]) <= 1024
        assert not set("<>") & set(found["description"])
        assert len(found.get("compatibility", "")) <= 500

    def test_the_skill_is_called_like_its_folder(self):
        assert header(SKILL / "SKILL.md")["name"] == SKILL.name

    def test_the_root_is_kept_out_of_installers(self):
        # The text "true" does not: only the boolean makes `skills add` look further than the root.
        assert header(ROOT / "SKILL.md")["metadata"]["internal"] is True

    def test_trigger_words_come_first(self):
        # Catalogues are cut short from the end.
        first = header(SKILL / "SKILL.md")["description"][:160]
        for word in ("Fine-tune", "SFT", "LoRA", "GRPO", "train", "LLaMA-Factory", "verl", "approved"):
            assert word in first

    def test_sizes(self):
        assert TEXT.count("\n") < 200
        assert len(TEXT) < 5000 * 3  # below 5000 tokens, at three characters a token
        for page in PAGES:
            assert page.read_text().count("\n") < 200

    def test_each_reference_is_there_says_when_to_read_it_and_is_named_with_its_condition(self):
        assert {page.stem for page in REFERENCES.iterdir()} == TOPICS
        when = section(TEXT, "## When to read more")
        for name in TOPICS:
            assert re.search(rf"^\| \[references/{name}\.md\]\(references/{name}\.md\) \| \S", when, re.MULTILINE)
            assert re.search(r"^Read this ", (REFERENCES / f"{name}.md").read_text(), re.MULTILINE)

    def test_what_the_skill_says_about_itself_on_codex(self):
        found = yaml.safe_load((SKILL / "agents" / "openai.yaml").read_text())
        assert found.keys() == {"interface", "policy"}
        assert found["interface"].keys() == {"display_name", "short_description", "default_prompt"}
        assert f"${SKILL.name}" in found["interface"]["default_prompt"]
        # Without it the skill leaves the catalogue, and nothing can refer to it any more.
        assert found["policy"] == {"allow_implicit_invocation": True}

    def test_there_are_no_symbolic_links(self):
        # Codex drops them when it installs a plugin.
        tracked = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert not [line for line in tracked.splitlines() if line.startswith("120000")]
        for folder in ("skills", ".claude-plugin", ".codex-plugin", ".agents", "rules", "hooks"):
            assert not [path for path in (ROOT / folder).rglob("*") if path.is_symlink()]


class TestManifests:
    def test_names(self):
        for path in PLUGINS:
            assert json.loads(path.read_text())["name"] == "loopai-trainer"
        for path in MARKETS:
            market = json.loads(path.read_text())
            assert (market["name"], [one["name"] for one in market["plugins"]]) == ("loopai", ["loopai-trainer"])

    def test_one_version_everywhere(self):
        found = [json.loads(path.read_text())["version"] for path in PLUGINS]
        claude = json.loads(MARKETS[0].read_text())
        found += [claude["metadata"]["version"], claude["plugins"][0]["version"]]
        found.append(header(SKILL / "SKILL.md")["metadata"]["version"])
        assert set(found) == {__version__}

    def test_both_places_of_the_plugin_are_this_repository(self):
        claude, codex = (json.loads(path.read_text())["plugins"][0] for path in MARKETS)
        assert claude["source"] == codex["source"]["path"] == "./"
        assert (ROOT / json.loads(PLUGINS[1].read_text())["skills"]).resolve() == SKILL.parent

    def test_limits_of_codex(self):
        found = json.loads(PLUGINS[1].read_text())["interface"]["defaultPrompt"]
        assert len(found) <= 3
        assert all(len(prompt) <= 128 for prompt in found)
        entry = json.loads(MARKETS[1].read_text())["plugins"][0]
        assert entry["policy"].keys() == {"installation", "authentication"}
        assert entry["category"]

    @pytest.mark.parametrize("path", [*MANIFESTS, SKILL / "agents" / "openai.yaml"], ids=by_name)
    def test_no_manifest_registers_an_mcp_server(self, path):
        assert "mcp" not in path.read_text().lower()

    def test_no_file_of_the_repository_registers_one(self):
        tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert not [name for name in tracked.splitlines() if re.search(r"mcp[^/]*\.json$", name)]
        for path in (ROOT / "skills").rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                for line in path.read_text().splitlines():
                    assert "mcp" not in line.lower() or "is off" in line, f"{path}: {line}"

    def test_the_wheel_takes_the_skill_and_the_sdist_the_bundle(self):
        hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
        assert hatch["wheel"]["force-include"]["skills/loopai-trainer"] == "loopai_trainer/skill"
        assert "skills" in hatch["sdist"]["include"]


class TestWhatItSays:
    """test_docs.py holds commands, flags and links of these pages; here are the names that it does not know."""

    def test_every_setting_stands_in_its_table_as_the_program_has_it(self):
        text = (REFERENCES / "config-keys.md").read_text()
        for heading, fields in settings().items():
            written = [line for line in section(text, heading).splitlines() if line.startswith("| `")]
            assert written == [setting_line(field) for field in fields], f"config-keys.md, {heading}"

    @pytest.mark.parametrize("page", PAGES, ids=by_name)
    def test_options_and_settings_in_text_exist(self, page):
        names = {name for fields in settings().values() for field in fields for name in field.names}
        text = page.read_text()
        options = set(re.findall(r"--option (?!NAME=)([\w]+)=", text))
        named = {
            span for span in spans(text) if re.fullmatch(r"(?:verl|llamafactory|train_input|agentlightning)_\w+", span)
        }
        bundled = {template.name for template in templates.list_templates()}
        defaults = {str(field.default) for fields in settings().values() for field in fields}
        assert options | named <= names | bundled | defaults | set(PRESETS)

    @pytest.mark.parametrize("page", PAGES, ids=by_name)
    def test_templates_in_text_exist(self, page):
        bundled = {template.name for template in templates.list_templates()}
        text = page.read_text()
        used = set(re.findall(r"--template ([a-z]\w+)", text))
        used |= {span for span in spans(text) if re.fullmatch(r"(?:qwen\w*_sft\w*|verl_grpo_\w+|cpu_smoke_\w+)", span)}
        assert used <= bundled

    def test_every_bundled_template_is_named(self):
        text = "".join(page.read_text() for page in PAGES)
        assert [one.name for one in templates.list_templates() if f"`{one.name}`" not in text] == []

    @pytest.mark.parametrize("page", PAGES, ids=by_name)
    def test_codes_in_text_exist(self, page):
        known = _words_of_the_program() | {"CONFIG_PATH", "MODEL_DIR"}
        assert {code for code in codes(page.read_text()) if code not in known} == set()

    def test_every_code_that_a_refusal_may_carry_is_explained(self):
        text = (REFERENCES / "errors.md").read_text()
        written = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)*\b", text))
        missing = _codes_of_refusals() - written
        assert not missing, f"references/errors.md says nothing of {sorted(missing)}"

    def test_the_table_of_exit_codes_is_the_programs(self):
        codes_of_errors = {kind.exit_code for kind in _kinds().values()} | {errors.EXIT_OK, errors.EXIT_DIFFERS}
        rows = re.findall(r"^\| (\d+) \|", section(TEXT, "## Exit codes"), re.MULTILINE)
        assert [int(row) for row in rows] == sorted(codes_of_errors)

    @pytest.mark.parametrize("page", PAGES, ids=by_name)
    def test_exit_codes_in_text_exist(self, page):
        known = {kind.exit_code for kind in _kinds().values()} | {0, 10}
        said = {int(number) for number in re.findall(r"\b[Ee]xit (\d+)", page.read_text())}
        assert said <= known

    @pytest.mark.parametrize("page", PAGES, ids=by_name)
    def test_fields_of_answers_exist(self, page):
        in_data = {name for shape in answer_schemas.DATA.values() for name in shape["properties"]}
        error = answer_schemas.answer("prepare")["properties"]["error"]["anyOf"][0]["properties"]
        for span in spans(page.read_text()):
            if found := re.fullmatch(r"(data|error)\.([a-z_0-9]+)(?:\.([a-z_0-9]+))?", span):
                where, name, deeper = found.groups()
                if (where, name) in NATIVE:
                    continue
                assert name in (in_data if where == "data" else set(error) | DETAILS), f"{page.name}: {span}"
                if deeper:
                    inside = error[name] if where == "error" else _shape_of(name)
                    assert deeper in inside["properties"], f"{page.name}: {span}"

    def test_presets_of_the_reward(self):
        text = (REFERENCES / "grpo.md").read_text()
        line = next(line for line in text.splitlines() if line.startswith("| preset |"))
        assert set(re.findall(r"`(\w+)`", line)) == set(PRESETS)

    def test_statuses(self):
        table = section((REFERENCES / "recovery.md").read_text(), "## First look")
        written = {word for row in re.findall(r"^\| ([a-z, ]+) \|", table, re.MULTILINE) for word in row.split(", ")}
        assert written - {"status"} == set(answer_schemas.DATA["status"]["properties"]["status"]["enum"])

    def test_rules_of_the_specification_are_there(self):
        rules = section(TEXT, "## Rules")
        for words in ("`&`, `nohup`", "keep waiting on that same session", "Running is not a result", "earlier round"):
            assert words in rules or words in TEXT
        for words in ("Never call `trainer run` in a conversation", "belongs to an operator", "`trainer_run`"):
            assert words in rules
        assert "Not for evaluating" in header(SKILL / "SKILL.md")["description"]


NATIVE = {("data", name) for name in ("train_batch_size", "max_prompt_length", "max_response_length")}
"""Keys of verl's own that look like fields of an answer."""
DETAILS = {"processes", "devices"}
"""What an orphan's refusal has besides (interface section 5: details of errors are open)."""


def _shape_of(name):
    shape = next(shape["properties"][name] for shape in answer_schemas.DATA.values() if name in shape["properties"])
    return shape["anyOf"][0] if "anyOf" in shape else shape


def _kinds():
    found = vars(errors).items()
    return {name: kind for name, kind in found if isinstance(kind, type) and issubclass(kind, errors.TrainerError)}


@cache
def _sources():
    return [path.read_text() for path in (ROOT / "loopai_trainer").rglob("*.py")]


@cache
def _words_of_the_program():
    return set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", "\n".join(_sources())))


def _codes_of_refusals():
    """Every code that a TrainerError has by its class, or is made with by name."""
    kinds = _kinds()
    found = {kind.code for kind in kinds.values()}
    for source in _sources():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in kinds:
                given = [word.value for word in node.keywords if word.arg == "code"]
                found |= {value.value for value in given if isinstance(value, ast.Constant)}
    return found


@pytest.fixture(scope="module")
def asked():
    """The verb that the hook sees in a command line."""
    names = {"__name__": "hook"}
    exec(compile((ROOT / "hooks" / "ask_a_person.py").read_text(), "hook", "exec"), names)
    return names["verb_of"]


@pytest.fixture(scope="module")
def rules():
    """Codex's rules; the file is Python-like (Starlark). `scripts/check-bundle` asks codex itself."""
    made = []
    exec((ROOT / "rules" / "trainer.rules").read_text(), {"prefix_rule": lambda **rule: made.append(rule)})
    return made


class TestHook:
    ASKS = (
        "trainer run-prepared /runs/v1/training_config.yaml --sha256 0a1b --json",
        "cd /data && trainer run-prepared c.yaml --sha256 0a",
        "/opt/venv/bin/trainer  run-prepared c.yaml",
        "loopai-trainer approve v1",
        "echo 0a1b2c3d | trainer approve v1",
        "CUDA_VISIBLE_DEVICES=0 python3 -m loopai_trainer run-prepared c.yaml",
        "/opt/venv/bin/python -P -m loopai_trainer approve v1",
        "python3 skills/loopai-trainer/scripts/trainer.py run-prepared c.yaml",
        'bash -c "trainer run-prepared c.yaml --sha256 0a"',
        "trainer \\\n  run-prepared c.yaml",
        "x=$(trainer run-prepared c.yaml)",
        "'trainer' 'run' --no-approval",
        "trainer recover v1 --adopt",
        "nohup trainer run-prepared c.yaml &",
    )
    PASSES = (
        "trainer prepare --dataset data.jsonl --json",
        "trainer wait v1 --timeout 540 --json",
        "trainer inspect run-prepared.yaml",
        "trainer status run",
        "trainer logs v1 --tail 50",
        "grep run-prepared docs/cli.md",
        "personal-trainer-app run",
        "python train.py run",
        "trainer running",
    )

    def said(self, stdin, root=ROOT):
        (command,) = [hook["command"] for group in self.groups() for hook in group["hooks"]]
        env = {"PATH": os.path.dirname(sys.executable) + ":/usr/bin:/bin", "CLAUDE_PLUGIN_ROOT": str(root)}
        done = subprocess.run(
            ["sh", "-c", command], input=stdin, env=env, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stderr == ""
        return json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else None

    def groups(self):
        found = json.loads((ROOT / "hooks" / "hooks.json").read_text())["hooks"]
        assert found.keys() == {"PreToolUse"}
        assert [group["matcher"] for group in found["PreToolUse"]] == ["Bash"]
        return found["PreToolUse"]

    def test_a_person_is_asked_before_a_training_starts(self):
        call = {"tool_name": "Bash", "tool_input": {"command": self.ASKS[0]}}
        said = self.said(json.dumps(call))
        assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", "ask")
        assert "SHA-256" in said["permissionDecisionReason"]

    @pytest.mark.parametrize(("verb", "decision"), [("run", "deny"), ("approve", "deny"), ("run-prepared", None)])
    def test_on_codex_whose_hooks_cannot_ask(self, verb, decision):
        call = {"turn_id": "1", "tool_name": "Bash", "tool_input": {"command": f"trainer {verb} v1"}}
        said = self.said(json.dumps(call))
        assert (said and said["permissionDecision"]) == decision

    def test_a_host_that_names_no_folder_is_not_blocked(self, tmp_path):
        # Python's exit status for a missing script, 2, would mean to refuse the command.
        assert self.said("{}", root=tmp_path) is None

    @pytest.mark.parametrize("stdin", ["", "[]", "{}", '{"tool_input": {"command": 1}}', '{"tool_input": null}'])
    def test_what_is_no_command_is_left_alone(self, stdin):
        assert self.said(stdin) is None

    @pytest.mark.parametrize("command", ASKS)
    def test_it_sees_every_way_to_write_it(self, asked, command):
        assert asked(command)

    def test_it_reads_a_large_command_in_no_time(self, asked):
        # Read again from each slash, this would take longer than the host waits for a hook.
        assert asked("cat > model <<END\n" + "A/" * 200_000 + "\nEND\ntrainer run-prepared c.yaml") == "run-prepared"

    @pytest.mark.parametrize("command", PASSES)
    def test_it_leaves_everything_else_to_the_hosts_rules(self, asked, command):
        assert not asked(command)


class TestRules:
    def test_a_person_is_asked_before_whatever_starts_a_training(self, rules):
        asked = {verb for rule in rules if rule["decision"] == "prompt" for verb in rule["pattern"][-1]}
        assert asked == {"run-prepared", "approve", "recover"}
        assert {rule["pattern"][-1] for rule in rules if rule["decision"] == "forbidden"} == {"run"}
        # Without a decision a rule allows.
        assert all(rule["decision"] in ("prompt", "forbidden") for rule in rules)

    def test_their_verbs_and_examples_are_the_programs(self, rules):
        for rule in rules:
            verbs = rule["pattern"][-1]
            assert set([verbs] if isinstance(verbs, str) else verbs) <= set(COMMANDS)
            for example in (*rule["match"], *rule["not_match"]):
                words = shlex.split(example.replace("python3 -m loopai_trainer", "trainer"))
                flags = {name for parameter in COMMANDS[words[1]].params for name in parameter.opts}
                assert {word for word in words if word.startswith("--")} <= flags


def test_every_call_in_the_skill_asks_for_json():
    for block in blocks(TEXT):
        for line in block.replace("\\\n", " ").splitlines():
            assert line.startswith("trainer "), line
            assert line.endswith(" --json"), line


def test_the_readme_installs_what_check_bundle_tries():
    said = section((ROOT / "README.md").read_text(), "## For coding agents")
    tried = (ROOT / "scripts" / "check-bundle").read_text()
    for program, words in (("codex", "add"), ("claude", "install")):
        for line in (f"{program} plugin marketplace add", f"{program} plugin {words} loopai-trainer@loopai"):
            assert line in said
            assert line in tried
    assert "npx skills add" in said
    assert "skills add" in tried


def test_trigger_queries_have_the_form_that_an_evaluation_needs():
    queries = json.loads((ROOT / "evals" / "trigger_queries.json").read_text())
    assert len(queries) == 20
    assert all(query.keys() == {"query", "should_trigger", "why"} for query in queries)
    assert sum(query["should_trigger"] is True for query in queries) == 10
    assert sum(query["should_trigger"] is False for query in queries) == 10
    assert len({query["query"] for query in queries}) == 20
    for query in queries:
        assert 20 <= len(query["query"]) <= 600
        assert query["why"]
        assert "loopai-trainer" not in query["query"], "a query that names the skill tries nothing"


def test_contributors_guide_names_what_there_is():
    text = (ROOT / "AGENTS.md").read_text()
    for name in set(re.findall(r"scripts/[\w-]+|tests/[\w/]+(?:\.py)?|docs/[\w/]+(?:\.md)?", text)):
        assert Path(ROOT, name).exists(), name
