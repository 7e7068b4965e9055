"""Checks of untrusted input: names, paths, owners, texts and sizes."""

import errno
import functools
import grp
import os
import pwd
import re
import shlex
import stat
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import quote, quote_plus, unquote

from trtbench.core.errors import InputError, UsageError


def clean_text(text: str, *, keep: str = "\n\t") -> str:
    """Escape control and direction characters, and bytes that are not UTF-8 (``\\xNN``)."""
    if text.isascii() and text.isprintable():
        return text
    found = []
    for each in text:
        # Cc: escapes; Cf: directions and invisible joiners; Cs: bytes that are not UTF-8.
        category, code = unicodedata.category(each), ord(each)
        harmless = category not in ("Cc", "Cs", "Zl", "Zp", "Cf") or each == "\u200d"
        if each in keep or harmless:
            found.append(each)
        elif 0xDC80 <= code <= 0xDCFF:  # how Python represents a byte that is not UTF-8
            found.append(f"\\x{code - 0xDC00:02x}")
        else:
            found.append(f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
    return "".join(found)


def clean_line(text: str) -> str:
    """Escape control characters, line breaks included."""
    return clean_text(text, keep="")


def shown(text: str, *, most: int = 80) -> str:
    """Quote an untrusted text for a message: shortened, on one line, escaped."""
    line = clean_line(text)
    return repr(line if len(line) <= most else line[: most - 1] + "…")


def xml_text(text: str) -> str:
    return clean_text(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def csv_cell(value: object) -> object:
    """Prefix a text that a spreadsheet would run as a formula; numbers are not changed."""
    if isinstance(value, str) and _FORMULA.search(value):
        try:
            float(value)
        except ValueError:
            return _FORMULA.sub(r"\1'\2", value)
    return value


_FORMULA = re.compile(r'(^|[;\t\n\r])((?:[^\S\t\n\r]|")*[-=+@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])')
"""Includes full-width signs, and a sign or a break after a character that may end a cell."""

MAX_BYTES = 2**30  # of a file that is read as a whole; models are read in pieces
MAX_TEXT_BYTES = 2**20  # files that people write by hand: settings, sweeps, lists of hosts
MAX_DEPTH = 64  # nested brackets; files of trtexec and trtbench have fewer than ten
MAX_PARTS = 10**6  # nested values, counted as often as they are repeated
MAX_BITS = 64  # of an integer; longer ones cannot be written as text, or turned into seconds
MAX_UNPACKED_BYTES = 2**33  # of an unpacked archive, by default
MAX_HOLES = 2**32  # bytes of holes in a file: reading them would take hours
_CHUNK = 1 << 16


def check_file(path: Path) -> os.stat_result:
    """Raise an error for pipes, devices and sockets, before anything waits for them."""
    name = clean_line(str(path))
    try:
        facts = path.stat()
    except FileNotFoundError:
        raise InputError(f"there is no file {name}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise InputError(f"{name} cannot be read", facts={"reason": reason}) from None
    _check_kind(path, facts)
    check_filled(path)
    return facts


def check_filled(path: Path) -> None:
    """Raise an error for a sparse file with gigabytes of holes, which would take hours to read."""
    empty = at = end = 0
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # removed in the meantime: reading it will report that
    except OSError as problem:
        reason = {"reason": problem.strerror}
        raise InputError(f"{clean_line(str(path))} cannot be read", facts=reason) from None
    try:
        end = os.fstat(descriptor).st_size
        while end > MAX_HOLES and at < end and empty <= MAX_HOLES:
            data = os.lseek(descriptor, at, os.SEEK_DATA)
            empty += data - at
            at = os.lseek(descriptor, data, os.SEEK_HOLE)
    except OSError as problem:  # no more data, or a file system that does not report holes
        if problem.errno == errno.ENXIO:
            empty += end - at
    finally:
        os.close(descriptor)
    if empty > MAX_HOLES:
        message = f"{clean_line(str(path))} has gigabytes that were never written"
        facts = {"bytes": end}
        raise InputError(message, facts=facts, fix="copy the file again: the copy is incomplete")


def read_bytes(path: Path, *, most: int = MAX_BYTES) -> bytes:
    """Read a regular file of limited size; pipes and devices are refused without waiting."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        _check_kind(path, facts)
        size, data = facts.st_size, b""
        if size <= most:
            # Not more than the file has: Python would allocate the memory first.
            parts = [file.read(size + 1)]
            while parts[-1] and sum(map(len, parts)) <= most:
                parts.append(file.read(_CHUNK))
            data = b"".join(parts) if len(parts) > 2 else parts[0]
            size = len(data)  # it may grow; files in /proc have no known size
    if size > most:
        message = f"{clean_line(str(path))} is too large to be read as a whole"
        raise InputError(message, facts={"bytes": size, "at most": most})
    return data


def read_text(path: Path, *, most: int = MAX_TEXT_BYTES) -> str:
    """Read a short UTF-8 text; the byte order mark of Windows editors is removed."""
    return read_bytes(path, most=most).decode("utf-8-sig")


def read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file; raises ValueError if it is not valid or nested too deeply."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    text = read_text(path)
    try:
        found: dict[str, object] = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    check_parts(found, where=str(path))
    return found


def read_settings(path: Path) -> dict[str, object]:
    """Read a user's TOML file; raises UsageError if it cannot be read."""
    try:
        return read_toml(path)
    except (OSError, ValueError) as problem:
        fix = "correct the TOML in it" if path.is_file() else "give a file that exists"
        raise UsageError(f"{path} cannot be read", facts={"reason": problem}, fix=fix) from None


def check_nesting(data: bytes | str, *, where: str) -> None:
    """Raise an error for text whose brackets, outside quotes, are nested too deeply."""
    text = data if isinstance(data, str) else data.decode("latin-1")
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth, quoted = 0, False
    for mark in re.finditer(r'\\.|["\[\]{}]', text, re.DOTALL):
        if mark[0] == '"':
            quoted = not quoted
        elif not quoted:
            depth += (mark[0] in "[{") - (mark[0] in "]}")
            if depth > MAX_DEPTH:
                raise _too_deep(where)


def check_parts(value: object, *, where: str) -> None:
    """Raise an error for a value that is nested too deeply or repeats itself (YAML anchors)."""
    known: dict[int, tuple[int, int]] = {}

    def measure(part: object, left: int) -> tuple[int, int]:
        if not isinstance(part, (Mapping, list, tuple)):
            if isinstance(part, int) and part.bit_length() > MAX_BITS:
                facts = {"bits": part.bit_length(), "at most": MAX_BITS}
                raise InputError(f"{clean_line(where)} holds a number too large", facts=facts)
            return 1, 0
        if left == 0:
            raise _too_deep(where)
        if id(part) not in known:
            inner = part.values() if isinstance(part, Mapping) else part
            sizes = [measure(each, left - 1) for each in inner]
            highest = max((height for _, height in sizes), default=0)
            known[id(part)] = (1 + sum(size for size, _ in sizes), 1 + highest)
        size, height = known[id(part)]
        if height > left or size > MAX_PARTS:
            raise _too_deep(where)
        return size, height

    measure(value, MAX_DEPTH)


def _check_kind(path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        kinds = {"d": "folder", "p": "pipe", "s": "socket"}
        what = f"is a {kinds.get(stat.filemode(facts.st_mode)[0], 'device')}, not a file"
        raise InputError(f"{clean_line(str(path))} {what}", fix="give an ordinary file")


def _too_deep(where: str) -> InputError:
    message = f"{clean_line(where)} is nested too deeply, or repeats itself without end"
    return InputError(message, facts={"levels": f"more than {MAX_DEPTH}"})


def why_untrusted(path: Path) -> str | None:
    """Return why a file must not control what this user runs; ``None`` if it may.

    The file and its folder must belong to this user, to the user who called sudo, or to root, and
    no one else may write to them or to a folder above. A sticky folder such as /tmp protects files
    from replacement. A group that only this user is in, and group 0, count as this user.
    """
    folders = dict.fromkeys([*path.absolute().parents, *path.resolve().parents])
    own = (path, path.lstat()), (path, path.stat())
    for each, facts in (*own, *((folder, folder.stat()) for folder in folders)):
        near = each in (path, path.absolute().parent)
        if near and facts.st_uid not in trusted_users():
            return f"{each} belongs to {user_name(facts.st_uid)}, not to {user_name(os.getuid())}"
        sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
        if sticky or stat.S_ISLNK(facts.st_mode):
            continue
        if facts.st_mode & stat.S_IWOTH:
            return f"{each} can be written by everyone"
        if facts.st_mode & stat.S_IWGRP and (group := _others_in(facts.st_gid)):
            return f"{each} can be written by the group {group}"
    return None


def trusted_users() -> set[int]:
    """The numbers of this user, of the system, and of whoever called sudo."""
    caller = os.environ.get("SUDO_UID", "") if os.getuid() == 0 else ""
    return {os.getuid(), 0, int(caller) if caller.isdecimal() else 0}


def is_planted(path: Path) -> bool:
    """Whether a path is a link that somebody else made; such links are never followed."""
    return path.is_symlink() and path.lstat().st_uid not in trusted_users()


def _others_in(number: int) -> str | None:
    """Return the name of a group that other users may be in; ``None`` if only this user is."""
    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return str(number)
    alone = group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}
    return None if number == 0 or alone else group.gr_name


def user_name(number: int) -> str:
    """Return the name of a user, or ``user NUMBER`` if there is none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


SECRET = "***"

_URL = (
    r"(?P<scheme>[A-Za-z][\w+.-]{0,30}://)(?P<user>[^\s@:'\"]{0,200}):(?P<password>[^\s\"]{1,500})@"
)
"""Up to the last @ of the word: a password may contain one, and begin with digits and /."""
_USER = r"(?P<scheme>[A-Za-z][\w+.-]{0,30}://)[^\s/@:'\"]{20,500}@"
"""A user name of this length is a token."""
_WORD = (
    r"(?:[\w-]*(?:password|passwd|passphrase|passcode|secret|token|credentials?|signature"
    r"|(?:api|access|account|private|secret|encryption|signing|session|storage|master|auth)[_-]?key)"
    r"|(?:[\w-]*[_-])?(?:pwd|sig|auth)|(?-i:(?:[A-Z][A-Z0-9_]*_|SSH)PASS))"
)
_VALUE = r"(?P<value>(?:'[^']*')+|\"[^\"]*\"|[^\s&;,'\"]+)"
_FLAG = rf"(?i)(?P<name>(?<!\S)-{{1,2}}{_WORD})(?P<gap>=|[ \t]+(?:\\\r?\n\s*)?)(?!-){_VALUE}"
_ASSIGNED = rf"(?i)(?P<name>(?<![\w-]){_WORD})(?P<gap>\s*[=:]\s*)(?!\d+(?:x\d+)+\b){_VALUE}"
_QUERY = r"(?i)(?P<name>[?&](?:key|pass))(?P<gap>=)(?P<value>[^\s&'\"]+)"
_QUOTED = (
    rf"(?i)(?P<name>(?P<mark>\\?['\"]){_WORD}(?P=mark))(?P<gap>\s{{0,9}}:\s{{0,9}})"
    r"(?!\\?['\"]\d+(?:x\d+)+\b)(?P<value>(?P=mark)[^'\"\\]*(?P=mark)|\"(?:[^\"\\]|\\.)*\")"
)
"""A name and its value as JSON and Python write them."""
_HEADER = (
    r"(?i)(?P<name>\bauthorization)(?P<gap>['\"]?\s{0,9}[=:]\s{0,9}['\"]?"
    r"(?:(?:bearer|basic|token|apikey|negotiate|digest)\s{1,9})?)(?P<value>[^\s'\",]+)"
)
_COOKIE = (
    r"(?i)(?P<name>\bcookie)(?P<gap>['\"]?\s{0,9}:\s{0,9}['\"]?)(?P<value>[^\s'\"][^'\"\r\n]*)"
)
_TYPED = r"(?P<name>\bsshpass)(?P<gap>\s{1,9}-p\s{0,9})" + _VALUE
_CURL = (
    r"(?P<name>\bcurl\b[^\n|;&]{0,500}?\s(?:-u|--user|--proxy-user))(?P<gap>[= \t]{0,9})" + _VALUE
)
_BEARER = r"(?i)(?P<name>\b(?:bearer|basic))(?P<gap>\s+)(?P<value>[\w.~+/=-]{8,})"
_PATTERNS = (_HEADER, _COOKIE, _QUOTED, _FLAG, _ASSIGNED, _QUERY, _TYPED, _CURL, _BEARER)
_KNOWN = (
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bhf_\w{20,}"
    r"|\bglpat-[\w-]{16,}|\bsk-[\w-]{20,}|\bxox[abp]-[\w-]{10,}|\bnvapi-[\w-]{20,}"
    r"|\bpypi-[\w-]{16,}|\bya29\.[\w-]{16,}|\bnpm_\w{20,}|\bdapi[0-9a-f]{20,}"
    r"|\b[srp]k_(?:live|test)_\w{10,}"
    r"|\bAIza[\w-]{30,}|\beyJ[\w-]{10,2000}\.[\w-]{10,2000}\.[\w-]{0,2000}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,4000}?(?:-----END [A-Z ]{0,30}KEY-----|\Z)"
)

_SUSPECT = (
    b":// secret token key credential pwd sig auth bearer basic akia asia ghp_ gho_ ghu_ ghs_ ghr_ "
    b"github_pat_ hf_ glpat- sk- xox eyj nvapi- aiza cookie curl pypi- ya. npm_ dapi k_live_"
    b" k_test_ passw passphrase passcode _pass ?pass &pass sshpass"
).split()
"""Every secret that is found here contains one of these, in lower case and without digits."""

_remembered: dict[str, str] = {}
"""Texts that are secret because a URL that was parsed has them, and what is written instead."""


def remember_secrets(url: str) -> None:
    """Have :func:`mask` hide the password of a URL wherever it stands, whatever it consists of."""
    _, mark, rest = url.partition("://")
    user, at, _ = rest.rpartition("@")
    name, colon, password = user.partition(":")
    if mark and at and colon and password:
        _remembered[f"{mark}{user}@"] = f"{mark}{name}:{SECRET}@"
        if len(password) >= 4:  # a shorter one stands in many words
            # As it is, as URLs and shells write it, and as a database's driver reads it.
            forms = [password, quote(password), quote_plus(password), unquote(password)]
            forms += [shlex.quote(form)[1:-1] for form in forms]
            _remembered.update(dict.fromkeys(filter(None, forms), SECRET))


def may_hold_secret(text: str) -> bool:
    """Whether a text contains any word that occurs in secrets; a quick test."""
    # Lines of logs differ in digits, if at all, so that most are known without them.
    letters = text.casefold().encode("utf-8", "replace").translate(None, b"0123456789")
    is_suspect = _is_suspect if len(letters) < 300 else _is_suspect.__wrapped__
    return is_suspect(letters) or any(map(text.__contains__, _remembered))


@functools.lru_cache(maxsize=4096)
def _is_suspect(letters: bytes) -> bool:
    return any(map(letters.__contains__, _SUSPECT))  # ten times as fast as one pattern


def mask(text: str) -> str:
    """Mask passwords, tokens and credentials of URLs in a command or any other text."""
    if not may_hold_secret(text):
        return text
    for known, instead in _remembered.items():
        text = text.replace(known, instead)
    if "://" in text:  # the name of a user with a password is not a secret
        text = re.sub(_URL, _masked_url, text)
        text = re.sub(_USER, lambda found: f"{found['scheme']}{SECRET}@", text)
    text = re.sub(_KNOWN, SECRET, text)
    for pattern in _PATTERNS:  # compiled when a text is suspect, and kept by re
        text = re.sub(pattern, _masked_value, text)
    return text


def mask_words(words: Sequence[str]) -> list[str]:
    """Mask secrets in the words of a command, also a value that follows its flag."""
    is_flag = re.compile(rf"-{{1,2}}{_WORD}", re.I).fullmatch
    return [
        SECRET if is_flag(before) and not word.startswith("-") else mask(word)
        for before, word in zip(["", *words], words, strict=False)
    ]


def mask_values(values: Mapping[str, str]) -> dict[str, str]:
    """Mask the values of names such as ``password``, and secrets within other values."""
    is_secret = re.compile(_WORD, re.I).fullmatch
    return {name: SECRET if is_secret(name) else mask(value) for name, value in values.items()}


def _masked_url(found: re.Match[str]) -> str:
    port = re.match(r"\d{1,5}[/',;)\]]", found["password"])  # and an @ in the path
    if port and found["scheme"].lower().startswith("http"):
        return found[0]
    return f"{found['scheme']}{found['user']}:{SECRET}@"


def _masked_value(found: re.Match[str]) -> str:
    quotes = re.match(r"\\?['\"]", found["value"])
    quote = quotes[0] if quotes else ""
    return f"{found['name']}{found['gap']}{quote}{SECRET}{quote}"


_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TAG = re.compile(r"[^\W_][\w .:@/+=#%~,-]{0,199}")
_FILE_NAME_BYTES = 100
LONGEST_NAME, LONGEST_PART = 4000, 255  # limits of file systems


def expand_home(text: str) -> Path:
    """Expand ``~`` as a shell does; the name of an unknown user is not changed."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path's own raises


def check_id(text: str, *, what: str = "run id", where: object = None) -> str:
    """Return an id; raises an error if it could be more than the name of one folder."""
    if _ID.fullmatch(text) and ".." not in text:
        return text
    fix = "an id has only letters, digits, '-', '_' and '.'"
    raise _refusal(f"{shown(text)} is not a valid {what}", where, fix=fix)


def check_tag(text: str, *, where: object = None) -> str:
    """Return a tag; raises an error if it is empty, too long or has unusual characters."""
    if mask(text) != text:
        fix = "choose another tag: tags are shown to everybody"
        raise _refusal("the tag looks like a secret", where, fix=fix)
    if _TAG.fullmatch(text):
        return text
    fix = "start it with a letter or digit; letters, digits, spaces and ._:@/+=#%~,- may follow"
    raise _refusal(f"{shown(text)} cannot be a tag", where, fix=fix)


def tag_from_text(text: str) -> str:
    """Return a valid tag for any text; a valid tag is not changed."""
    if _TAG.fullmatch(text):
        return text
    return re.sub(r"^[\W_]+", "", re.sub(r"[^\w .:@/+=#%~,-]", "_", text))[:200] or "unnamed"


def check_title(text: str, *, where: object = None) -> str:
    """Return a title; raises an error if it is not one line of printable text."""
    if text.strip() and len(text) <= 200 and clean_line(text) == text:
        return text
    fix = "a title is one line of at most 200 printable characters"
    raise _refusal(f"{shown(text)} cannot be a title", where, fix=fix)


def file_name_from_text(text: str, *, otherwise: str = "unnamed") -> str:
    """Return a file name for any text: no folder, no leading dot or dash, not too long."""
    name = re.sub(r"[^\w.+-]+", "-", unicodedata.normalize("NFC", text)).strip(".-")
    cut = re.sub(r"\.{2,}", ".", name).encode("utf-8", "replace")[:_FILE_NAME_BYTES]
    return cut.decode("utf-8", "ignore") or otherwise


def check_name(name: str, *, what: str = "name", where: object = None) -> PurePosixPath:
    """Return a relative path; raises an error if it is empty, absolute or leads upwards."""
    path = PurePosixPath(name)
    if is_too_long(name):
        raise _refusal(f"the {what} {shown(name)} is too long", where, fix="give it a shorter name")
    bad = not name or "\0" in name or path.is_absolute() or ".." in path.parts or not path.parts
    # On another system a backslash or a drive letter may lead out of the folder.
    if bad or "\\" in name or re.match(r"[A-Za-z]:", name) or name.startswith("~"):
        fix = "only files in the same folder, or in folders below it, are used"
        raise _refusal(f"the {what} {shown(name)} leads out of its folder", where, fix=fix)
    return path


def check_given(text: str, *, what: str) -> None:
    """Refuse a text that names neither a run nor a file: blank, with NUL, or too long for one."""
    # Files may be joined by commas; a URL may hold a long password, and a condition has blanks.
    too_long = not re.search(r"://|\S\s+\S", text) and any(map(is_too_long, text.split(",")))
    if too_long or not text.strip() or "\0" in text:
        raise UsageError(f"{what} {shown(text)} names nothing", fix="give a run or a file")


def is_too_long(name: str) -> bool:
    """Whether a path, or a part of it, is longer than file systems allow."""
    sizes = [len(part.encode("utf-8", "replace")) for part in name.split("/")]
    return len(name) > LONGEST_NAME or max(sizes) > LONGEST_PART


def inside(folder: Path, name: str, *, what: str = "name", where: object = None) -> Path:
    """Return the path of a name below a folder; raises an error if it passes through a link."""
    relative = check_name(name, what=what, where=where)
    path = folder
    for part in relative.parts:
        path = path / part
        if path.is_symlink():
            message = f"the {what} {shown(name)} passes through a link"
            fix = "put the file itself there: cp -L copies what a link points to"
            raise _refusal(message, where, facts={"link": path}, fix=fix)
    return path


def is_inside(folder: Path, path: Path) -> bool:
    """Whether a path, with links resolved, is below a folder."""
    try:
        found, root = path.resolve(), folder.resolve()
    except (OSError, RuntimeError):  # links in a circle
        return False
    return found != root and found.is_relative_to(root)


def _refusal(
    message: str, where: object, *, facts: Mapping[str, object] | None = None, fix: str
) -> InputError:
    found = {} if where is None else {"in": clean_line(str(where))}
    return InputError(message, facts={**found, **(facts or {})}, fix=fix)
