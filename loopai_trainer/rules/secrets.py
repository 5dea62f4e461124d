"""What a secret looks like, by its name or by itself; finding secrets in values, and taking them out of texts.

Light on purpose: the answers of `status --json` pass through `redacted`, so `re` is loaded only when a text holds the
beginning of a token.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

SHOWN = "[redacted]"
MIN_LENGTH = 8
"""A shorter value of a variable is no token, and would be found inside ordinary words."""

_WORD = 20
"""A value of letters alone that is shorter may be a word."""

_ENDINGS = ("token", "secret", "password", "passwd", "passphrase", "webhook_url", "credentials")
_KEY_ENDINGS = ("api_key", "apikey", "access_key", "secret_key", "private_key", "auth_key", "encryption_key")

_MARKS = (
    "hf_", "sk-", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "eyJ", "AIza",
    "npm_", "pypi-", "PRIVATE KEY", "://",
)  # fmt: skip
_TOKENS = (
    ("a Hugging Face token", r"hf_[A-Za-z0-9]{30,}"),
    ("an API key (sk-...)", r"sk-(?:[A-Za-z0-9]{20,}|(?:proj|ant|svcacct|admin|or)-[A-Za-z0-9_-]{20,})"),
    ("an AWS access key", r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("a GitHub token", r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})"),
    ("a GitLab token", r"glpat-[A-Za-z0-9_-]{20,}"),
    ("a Slack token", r"xox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("a Google API key", r"AIza[0-9A-Za-z_-]{35}"),
    ("an npm token", r"npm_[A-Za-z0-9]{36}"),
    ("a PyPI token", r"pypi-[A-Za-z0-9_-]{50,}"),
    ("a JSON Web Token", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[A-Za-z0-9+/=\s\\n]*-----END [A-Z ]*PRIVATE KEY-----)?"),
    ("a password in an address", r"(?<=://)[^\s/@:\"']*:[^\s/@\"']+(?=@)"),
)
"""(what it is, pattern). The forms that the services themselves publish for secret scanning; a `task-...` or an
`hf_checkpoints` folder is none of them."""

_NAMED_VALUE = r"""([\w.-]{3,64})(["']?\s{0,2}[=:]\s{0,2}["']?)([^\s"',;&]{8,512})"""

_compiled: "dict[str, Any]" = {}


def is_secret_name(name: str) -> bool:
    """Whether a variable or a key of that name holds a token, a password or the like (`eos_token_id` does not)."""
    low = name.lower()
    return low.endswith((*_ENDINGS, *_KEY_ENDINGS, "_key")) or low == "key"


def kind_of_token(text: str) -> str | None:
    """What the text holds that looks like a token by itself; None if nothing does."""
    if not any(mark in text for mark in _MARKS):
        return None
    for kind, pattern in _TOKENS:
        if _pattern(pattern, bounded=True).search(text):
            return kind
    return None


def named_secret(name: str, value: object) -> bool:
    """Whether a value is a secret by its key's name: `pad_token: <pad>` and `prompt_key: prompt` are not."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False
    text, low = str(value), name.lower()
    if low.endswith(("password", "passwd", "passphrase", "secret")):
        return text != ""
    if len(text) < MIN_LENGTH or not text.isprintable() or any(mark in text for mark in " <>/[]{}"):
        return low.endswith("webhook_url") and len(text) >= MIN_LENGTH
    if low.endswith((*_ENDINGS, *_KEY_ENDINGS)):
        return not text.isdigit()
    # Any `_key` may name a column: only what no person would call a column is a secret.
    return low.endswith("_key") and len(text) >= 16 and _mixed(text)


def found(values: "Mapping[str, Any]", hidden: "Sequence[str]" = ()) -> "Iterator[tuple[str, str]]":
    """(dotted key, what it is) for each value that is, or holds, a secret. Says no value.

    `hidden`: values of the environment's secrets (see `environment_values`).
    """
    for key, name, value in _leaves(values, ""):
        kind = kind_of_token(value) if isinstance(value, str) else None
        if kind is None and named_secret(name, value):
            kind = f"a secret, as its name '{name}' says"
        if kind is None and isinstance(value, str) and any(one in value for one in hidden):
            kind = "the value of a secret variable of this environment"
        if kind is not None:
            yield key, kind


def environment_values(environ: "Mapping[str, str]") -> tuple[str, ...]:
    """Values of variables with a secret name, the longest first. Paths, numbers and single words are none."""
    values = {value for name, value in environ.items() if is_secret_name(name) and _may_be_secret(name.lower(), value)}
    return tuple(sorted(values, key=len, reverse=True))


def redacted(text: str, hidden: "Sequence[str]" = ()) -> str:
    """The text without tokens, without the values `hidden`, and without values written beside a secret's name."""
    for value in hidden:
        if value in text:
            text = text.replace(value, SHOWN)
    if any(mark in text for mark in _MARKS):
        for _, pattern in _TOKENS:
            text = _pattern(pattern, bounded=True).sub(SHOWN, text)
    low = text.lower()
    if ("=" in text or ":" in text) and any(word in low for word in ("token", "secret", "passw", "passphrase", "key")):
        text = _pattern(_NAMED_VALUE).sub(_without_value, text)
    return text


def redacted_value(value: "Any", hidden: "Sequence[str]" = ()) -> "Any":
    """The same for every text in a JSON-like value, and for what stands under a secret's name."""
    if isinstance(value, str):
        return redacted(value, hidden)
    if isinstance(value, dict):
        return {
            key: SHOWN if named_secret(str(key), one) else redacted_value(one, hidden) for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted_value(one, hidden) for one in value]
    return value


def _without_value(match: "Any") -> str:
    name, between, value = match.groups()
    return f"{name}{between}{SHOWN}" if named_secret(name, value) else match.group(0)


def _may_be_secret(low: str, value: str) -> bool:
    """Whether the value of a variable of that name (lower case) can be searched for without hitting ordinary text."""
    if len(value) < MIN_LENGTH or value.isdigit() or value.startswith(("/", "./", "~")):
        return False
    if value.isalpha() and len(value) < _WORD:
        return False  # PGPASSWORD=postgres hides nothing, and the word stands in many a text
    return low.endswith((*_ENDINGS, *_KEY_ENDINGS)) or (len(value) >= 16 and _mixed(value))


def _mixed(text: str) -> bool:
    return any(one.isdigit() for one in text) and any(one.isalpha() for one in text)


def _leaves(value: "Any", key: str, name: str = "") -> "Iterator[tuple[str, str, Any]]":
    """(dotted key, last name, value); items of a list have the list's name."""
    if isinstance(value, dict):
        for part, child in value.items():
            yield from _leaves(child, f"{key}.{part}" if key else str(part), str(part))
    elif isinstance(value, list | tuple):
        for index, child in enumerate(value):
            yield from _leaves(child, f"{key}.{index}", name)
    else:
        yield key, name, value


def _pattern(text: str, *, bounded: bool = False) -> "Any":
    if text not in _compiled:
        import re

        _compiled[text] = re.compile(rf"(?<![A-Za-z0-9_-]){text}" if bounded and not text.startswith("(?<=") else text)
    return _compiled[text]
