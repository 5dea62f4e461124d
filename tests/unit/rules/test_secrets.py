"""Every token below is made up, and put together here so that no scanner takes this file for a leak."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.rules import secrets

LETTERS = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1B"
TOKENS = {
    "hugging face": "hf_" + LETTERS + "abcdef",
    "openai": "sk-" + LETTERS,
    "openai project": "sk-proj-" + LETTERS + "_-x",
    "anthropic": "sk-ant-api03-" + LETTERS,
    "aws": "AKIA" + "ABCDEFGH12345678",
    "github": "ghp_" + LETTERS + "abcdef",
    "github fine grained": "github_pat_" + LETTERS + "_abcdef",
    "gitlab": "glpat-" + LETTERS[:20],
    "slack": "xoxb-" + "123456789012-abcdef",
    "google": "AIza" + (LETTERS + LETTERS)[:35],
    "npm": "npm_" + (LETTERS + LETTERS)[:36],
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + ".c2lnbmF0dXJl",
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "address": "https://me:" + "pa55word@example.org/x",
}
ORDINARY = (
    "/data/task-of-the-thirty-longest-names/train.jsonl",
    "/models/hf_checkpoints_of_my_favourite_model",
    "sk-learn-experiments-of-the-year",
    "<|im_end|>",
    "https://example.org/a/b",
    "a" * 64,
    "AKIApp",
    "Qwen/Qwen3-0.6B",
)


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("around", ["{}", "x={}", "see {}.", '"{}"', "Bearer {} in a header"])
def test_tokens_are_known_by_themselves(name, around):
    text = around.format(TOKENS[name])
    assert secrets.kind_of_token(text)
    assert list(secrets.found({"a": {"b": [text]}})) == [("a.b.0", secrets.kind_of_token(text))]
    shown = secrets.redacted(text)
    assert secrets.SHOWN in shown
    assert TOKENS[name] not in shown


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_texts_are_no_tokens(text):
    assert secrets.kind_of_token(text) is None
    assert secrets.redacted(text) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hub_token", "abcdefgh"),
        ("swanlab_api_key", "abcdefghij"),
        ("client_secret", "x"),
        ("password", "hunter2"),
        ("PASSWORD", 12345),
        ("signing_key", "a1b2c3d4e5f6a7b8"),
        ("webhook_url", "https://hooks.example.org/a/b"),
    ],
)
def test_secrets_are_known_by_their_names(name, value):
    assert secrets.named_secret(name, value)
    assert [key for key, _ in secrets.found({"x": {name: value}})] == [f"x.{name}"]
    assert secrets.redacted_value({name: value}) == {name: secrets.SHOWN}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pad_token", "<pad>"),
        ("eos_token_id", 151645),
        ("use_token", True),
        ("prompt_key", "prompt"),
        ("reward_fn_key", "data_source"),
        ("image_key", "images"),
        ("max_token", 4096),
        ("num_tokens", "12345678"),
        ("hub_token", None),
        ("hub_token", ""),
        ("password", ""),
        ("password", False),
        ("token", "two words here"),
        ("learning_rate", 1e-5),
    ],
)
def test_names_that_only_sound_like_secrets(name, value):
    assert not secrets.named_secret(name, value)
    assert list(secrets.found({name: value})) == []
    assert secrets.redacted_value({name: value}) == {name: value}


def test_values_of_the_environments_secrets():
    environ = {
        "MY_API_KEY": "correct-horse",
        "DB_PASSWORD": "correct-horse-battery",
        "SSH_KEY": "/home/me/.ssh/id",
        "SHORT_TOKEN": "abc",
        "PIN_SECRET": "12345678",
        "PATH": "/usr/bin:/bin",
        "PG_PASSWORD": "postgres",
        "SORT_KEY": "created-at",
        "HOME_TOKEN": "llamafactory",
        "EDITOR": "something-long",
    }
    hidden = secrets.environment_values(environ)
    assert hidden == ("correct-horse-battery", "correct-horse")
    assert secrets.redacted("a correct-horse-battery, a correct-horse", hidden) == "a [redacted], a [redacted]"
    assert secrets.redacted("nothing of the kind", hidden) == "nothing of the kind"
    assert [key for key, _ in secrets.found({"a": "is correct-horse"}, hidden)] == ["a"]
    assert "correct" not in repr(list(secrets.found({"a": "is correct-horse"}, hidden)))


@pytest.mark.parametrize(
    "line",
    [
        "WANDB_API_KEY=0123456789abcdef",
        "export HF_TOKEN='abcdefghijkl'",
        '{"client_secret": "abcdefgh"}',
        "db.password: abcdefgh",
        "login failed: api_key = abcdefghijkl, try again",
    ],
)
def test_values_beside_a_secrets_name(line):
    shown = secrets.redacted(line)
    assert secrets.SHOWN in shown
    assert "abcdefgh" not in shown
    assert "0123456789abcdef" not in shown


@pytest.mark.parametrize(
    "line",
    [
        "KeyError: 'missing_column'",
        "eos_token: <|endoftext|>",
        "num tokens = 12,345,678",
        "Num trainable token: 123456789012",
        "prompt_key=prompt_of_the_row",
        "***** Running training *****",
    ],
)
def test_what_training_usually_prints_stays(line):
    assert secrets.redacted(line) == line


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_values_without_secrets_stay_as_they_are(value):
    document = json.loads(json.dumps(value))
    if not list(secrets.found({"value": document})):
        shown = secrets.redacted_value(document)
        assert secrets.SHOWN in json.dumps(shown) or shown == document


@given(st.text(), st.sampled_from(sorted(TOKENS.values())), st.text())
def test_no_token_survives_between_any_texts(before, token, after):
    shown = secrets.redacted(f"{before} {token} {after}")
    assert token not in shown
