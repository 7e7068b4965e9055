"""Passwords, tokens and credentials, hidden wherever a text is kept or shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

SECRET = "***"

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]{0,30}://)(?P<user>[^\s/@:'\"]{0,200}):(?!\d{1,9}(?:[/',;)\]]|\s|$))"
    r"[^\s\"]{1,500}@"
)
"""To the last @ of the word: a password may hold one. Digits and a slash are a port."""
_USER = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]{0,30}://)[^\s/@:'\"]{20,500}@")
"""A user's name that is this long is a token."""
_WORD = (
    r"(?:[\w-]*(?:password|passwd|passphrase|passcode|secret|token|credentials?|signature"
    r"|(?:api|access|account|private|secret|encryption|signing|session|storage|master|auth)[_-]?key)"
    r"|(?:[\w-]*[_-])?(?:pwd|sig|auth)|(?-i:[A-Z][A-Z0-9_]*_PASS))"
)
_VALUE = r"(?P<value>(?:'[^']*')+|\"[^\"]*\"|[^\s&;,'\"]+)"
_FLAG = re.compile(
    rf"(?P<name>(?<!\S)-{{1,2}}{_WORD})(?P<gap>=|[ \t]+(?:\\\r?\n\s*)?)(?!-){_VALUE}", re.I
)
_ASSIGNED = re.compile(
    rf"(?P<name>(?<![\w-]){_WORD})(?P<gap>\s*[=:]\s*)(?!\d+(?:x\d+)+\b){_VALUE}", re.I
)
_QUERY = re.compile(r"(?P<name>[?&](?:key|pass))(?P<gap>=)(?P<value>[^\s&'\"]+)", re.I)
_QUOTED = re.compile(
    rf"(?P<name>(?P<mark>\\?['\"]){_WORD}(?P=mark))(?P<gap>\s{{0,9}}:\s{{0,9}})"
    r"(?!\\?['\"]\d+(?:x\d+)+\b)(?P<value>(?P=mark)[^'\"\\]*(?P=mark)|\"(?:[^\"\\]|\\.)*\")",
    re.I,
)
"""A name and its value as JSON and Python write them."""
_HEADER = re.compile(
    r"(?P<name>\bauthorization)(?P<gap>['\"]?\s{0,9}[=:]\s{0,9}['\"]?"
    r"(?:(?:bearer|basic|token|apikey|negotiate|digest)\s{1,9})?)(?P<value>[^\s'\",]+)",
    re.I,
)
_COOKIE = re.compile(
    r"(?P<name>\bcookie)(?P<gap>['\"]?\s{0,9}:\s{0,9}['\"]?)(?P<value>[^\s'\"][^'\"\r\n]*)", re.I
)
_TYPED = re.compile(r"(?P<name>\bsshpass)(?P<gap>\s{1,9}-p\s{0,9})" + _VALUE)
_BEARER = re.compile(r"(?P<name>\b(?:bearer|basic))(?P<gap>\s+)(?P<value>[\w.~+/=-]{8,})", re.I)
_KNOWN = re.compile(
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bhf_\w{20,}"
    r"|\bglpat-[\w-]{16,}|\bsk-[\w-]{20,}|\bxox[abp]-[\w-]{10,}|\bnvapi-[\w-]{20,}"
    r"|\bAIza[\w-]{30,}|\beyJ[\w-]{10,2000}\.[\w-]{10,2000}\.[\w-]{0,2000}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,4000}?(?:-----END [A-Z ]{0,30}KEY-----|\Z)"
)


_SUSPECT = (
    *("://", "secret", "token", "key", "credential", "pwd", "sig", "auth"),
    *("bearer", "basic", "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    *("hf_", "glpat-", "sk-", "xox", "eyj", "nvapi-", "aiza", "cookie"),
    *("passw", "passphrase", "passcode", "_pass", "?pass", "&pass", "sshpass"),
)
"""What every secret that is found here has, in small letters; most lines have none of it."""


def may_hold_secret(text: str) -> bool:
    """Say whether a text has any of the words without which there is no secret to be found."""
    small = text.casefold()
    for word in _SUSPECT:  # noqa: SIM110 - ten times as fast as one pattern of all
        if word in small:
            return True
    return False


def mask(text: str) -> str:
    """Hide passwords, tokens and credentials of URLs in a command or any other text."""
    if not may_hold_secret(text):
        return text
    # Of a user with a password the name is no secret.
    text = _URL.sub(lambda found: f"{found['scheme']}{found['user']}:{SECRET}@", text)
    text = _USER.sub(lambda found: f"{found['scheme']}{SECRET}@", text)
    text = _KNOWN.sub(SECRET, text)
    for pattern in (_HEADER, _COOKIE, _QUOTED, _FLAG, _ASSIGNED, _QUERY, _TYPED, _BEARER):
        text = pattern.sub(_masked_value, text)
    return text


def mask_words(words: Sequence[str]) -> list[str]:
    """Hide secrets in the words of a command, where a value stands alone behind its flag."""
    found: list[str] = []
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        alone = before.startswith("-") and "=" not in before and not word.startswith("-")
        is_secret = alone and re.fullmatch(rf"-{{1,2}}{_WORD}", before, re.I) is not None
        found.append(SECRET if is_secret else mask(word))
    return found


def mask_values(values: Mapping[str, str]) -> dict[str, str]:
    """Hide the values of names that say they are secret, and secrets within the others."""
    is_secret = re.compile(_WORD, re.I).fullmatch
    return {name: SECRET if is_secret(name) else mask(value) for name, value in values.items()}


def _masked_value(found: re.Match[str]) -> str:
    quotes = re.match(r"\\?['\"]", found["value"])
    quote = quotes[0] if quotes else ""
    return f"{found['name']}{found['gap']}{quote}{SECRET}{quote}"
