"""Removes secrets from text before it leaves the machine: log lines, exception messages, command lines.

Standard library only, linear in the length of the text, never raises. What it removes:

- values of environment variables whose names say secret (`Redactor.from_environ`), wherever they appear;
- values given to a key that says secret (`password=…`, `"api_key": "…"`, `--token …`, `Authorization: …`);
- passwords in URLs, signatures of presigned URLs, private key blocks, and tokens with a well-known shape.

A bare `token` counts only with a long mixed value: training logs are full of `tokens: 4096` and `pad_token=<pad>`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

REDACTED = "[redacted]"

_SECRET_WORD = (
    r"passw(?:or)?d|passphrase|passwd|secret|api[_-]?key|apikey|access[_-]?key|private[_-]?key|signing[_-]?key|account[_-]?key"
    r"|encryption[_-]?key|credentials?|authorization|cookie"
    r"|(?:auth|access|api|hf|hub|refresh|bearer|bot|secret|wandb|gitlab|github|session|security|identity|oauth)[_-]?token"
)
# The key: a word that holds a secret word, at most 80 characters before it and 20 after, so that matching stays linear.
_KEY = rf"(?<![\w.-])[\w.-]{{0,80}}?(?:{_SECRET_WORD}|(?:(?<=[_-])|\b)pwd(?=[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?[^/\s\"']))[\w.-]{{0,20}}"
_VALUE = (
    r"""(?:(?:Bearer|Basic|Token|Digest)\s+[^\s"',;]+|\\"[^"\\\n]{0,4096}\\"|"(?:[^"\\\n]|\\.){0,4096}"|'(?:[^'\\\n]|\\.){0,4096}'"""
    r"""|[^\s"',;&)\]}]+)"""
)
_HARMLESS = r"(?!(?:None|True|False|null|true|false|\"\"|'')(?![\w-]))"
_SEPARATOR = r"""(?:(?:\\?["'])?\s{0,3}(?:=>|:=|[=:])\s{0,3}|["']\s{0,3},\s{0,3}(?=["']))"""

_KEYED = re.compile(rf"(?P<key>{_KEY}{_SEPARATOR}){_HARMLESS}{_VALUE}", re.IGNORECASE)
_FLAG = re.compile(rf"(?P<key>(?<!\S)(?=-){_KEY}[ \t]{{1,3}})(?!-){_HARMLESS}{_VALUE}", re.IGNORECASE)
_BARE_TOKEN = re.compile(
    r"""(?P<key>(?<![\w-])(?:--)?token["']?(?:\s{0,3}[=:]\s{0,3}|[ \t])["']?)(?=[^\s"',;&)]{0,200}\d)[A-Za-z0-9_\-./+=]{12,}""",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(?P<key>\b(?:Bearer|Basic)\s)[A-Za-z0-9_\-./+=~]{12,}", re.IGNORECASE)
_URL_USER = re.compile(r"(?P<key>\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)[^\s/@:\"']{0,200}:[^\s/@\"']{1,500}(?=@)")
_URL_SIGNATURE = re.compile(
    r"(?P<key>[?&](?:sig|signature|X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature)=)[^\s&\"']+", re.IGNORECASE
)
_KNOWN_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ffk_[A-Za-z0-9_-]{8,}|nvapi-[A-Za-z0-9_-]{20,}"
    r"|whsec_[A-Za-z0-9+/=]{16,}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN[ A-Z]{0,30}PRIVATE KEY-----(?:(?:(?!-----BEGIN)[\s\S]){0,8192}?-----END[ A-Z]{0,30}PRIVATE KEY-----"
    r"|(?:\\n|[A-Za-z0-9+/=\s]){0,8192})"
)
# A tail that begins inside a key block: whole base64 lines before the end mark.
_PRIVATE_KEY_END = re.compile(r"(?:^[A-Za-z0-9+/=]{1,76}\r?\n){1,200}-----END[ A-Z]{0,30}PRIVATE KEY-----", re.MULTILINE)

_SECRET_NAME = re.compile(rf"{_SECRET_WORD}|token|(?:^|_)(?:pwd|key|pat|auth)$", re.IGNORECASE)
_SHORTEST_SECRET = 8


class Redactor:
    """Redacts text; holds the values that are secret here whatever their surroundings."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets` shorter than eight characters are not searched for: they would blank ordinary words."""
        # Longest first, so that a secret that contains another leaves no remainder behind.
        values = sorted({secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}, key=lambda secret: (-len(secret), secret))
        self._known = re.compile("|".join(re.escape(value) for value in values)) if values else None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Redactor":
        """Search for the values that `secrets_of` finds."""
        return cls(secrets_of(environ))

    def text(self, text: str) -> str:
        """The text with each secret replaced by `[redacted]`; line breaks inside a private key block are lost with it."""
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        if "PRIVATE KEY-----" in text:
            text = _PRIVATE_KEY_END.sub(REDACTED, _PRIVATE_KEY.sub(REDACTED, text))
        if "://" in text:
            text = _URL_SIGNATURE.sub(_keep_key, _URL_USER.sub(_keep_key, text))
        text = _KNOWN_SHAPES.sub(REDACTED, text)
        for pattern in (_KEYED, _FLAG, _BARE_TOKEN, _SCHEME):
            text = pattern.sub(_keep_key, text)
        return text

    def args(self, args: Sequence[str]) -> list[str]:
        """A command line, argument by argument; the argument after a flag that says secret is a value too."""
        clean: list[str] = []
        value_follows = False
        for arg in args:
            if value_follows and not arg.startswith("-"):
                clean.append(REDACTED)
                value_follows = False
                continue
            name, equals, _ = arg.partition("=")
            names_secret = arg.startswith("-") and _SECRET_NAME.search(name) is not None and "tokens" not in name.lower()
            clean.append(f"{name}={REDACTED}" if names_secret and equals else self.text(arg))
            value_follows = names_secret and not equals
        return clean


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Values of variables named like secrets, except paths, plain numbers and flags."""
    return [value for name, value in environ.items() if _SECRET_NAME.search(name) and not _is_ordinary(value)]


def _keep_key(match: "re.Match[str]") -> str:
    return f"{match['key']}{REDACTED}"


def _is_ordinary(value: str) -> bool:
    return value.startswith(("/", "./", "~/")) or value.isdigit() or value.lower() in ("disabled", "required", "optional", "password")
