"""What comes from outside is refused in words, or made harmless, before anything uses it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trtbench.core import safety as boundary
from trtbench.core.errors import InputError

TAKEN = {
    boundary.check_id: ("20261115-101112-abcdef", "a", "run.7_b-1", "A" * 128),
    boundary.check_tag: ("nightly", "sweep:a b-1f", "größe", "team/x=1", "v1.2, late"),
    boundary.check_title: ("My model, 2×: ok",),
}
REFUSED = {
    boundary.check_tag: ("", " x", "-x", "a\nb", "a\x1b[2J", "a\u202eb", "x" * 201),
    boundary.check_title: ("", "  ", "a\nb", "\x1b]0;x\x07", "t" * 201),
}


@pytest.mark.parametrize("check", TAKEN)
def test_one_printable_line_is_an_id_a_tag_or_a_title(check: Callable[[str], str]) -> None:
    assert [check(text) for text in TAKEN[check]] == [*TAKEN[check]]
    for text in REFUSED.get(check, ()):
        with pytest.raises(InputError):
            check(text)


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", ".hidden", "-rf", "a/b", "../x", "/etc", "a\\b", "a b", "a\n", "a..b", "ä",
     "\x1b[31m", "A" * 129, "a\0b", "~root", "C:x"],
)  # fmt: skip
def test_ids_that_could_lead_elsewhere_are_refused_without_repeating_escapes(text: str) -> None:
    with pytest.raises(InputError) as found:
        boundary.check_id(text, where="run.json")
    assert "\x1b" not in str(found.value)
    assert found.value.fix


@pytest.mark.parametrize(
    ("text", "name"),
    [("../../etc/x", "etc-x"), ("a b", "a-b"), ("...", "unnamed"), ("-rf", "rf"),
     ("naïve/é", "naïve-é"), ("a\0b", "a-b"), ("x..y", "x.y"), ("resnet18", "resnet18")],
)  # fmt: skip
def test_any_text_becomes_the_name_of_one_file(text: str, name: str, tmp_path: Path) -> None:
    assert boundary.file_name_from_text(text) == name
    long_name = boundary.file_name_from_text("ü" * 5000)
    (tmp_path / f"{long_name}.html").touch()


def test_a_name_below_a_folder_is_found_and_one_through_a_link_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "w.bin").write_bytes(b"x")
    assert boundary.inside(folder, "parts/w.bin") == folder / "parts" / "w.bin"
    (tmp_path / "secret").mkdir()
    (folder / "door").symlink_to(tmp_path / "secret")
    (folder / "key").symlink_to(tmp_path / "secret" / "id_rsa")
    for name in ("door/id_rsa", "key"):
        with pytest.raises(InputError, match="link"):
            boundary.inside(folder, name)


def test_what_is_inside_is_told_with_links_followed(tmp_path: Path) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    (store / "a").mkdir(parents=True)
    other.mkdir()
    (store / "out").symlink_to(other)
    assert boundary.is_inside(store, store / "a")
    assert not boundary.is_inside(store, store)
    assert not boundary.is_inside(store, store / "out")
    assert not boundary.is_inside(store, store / ".." / "other")


def test_a_link_laid_by_another_user_does_not_steer(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give links away")
    (tmp_path / "own.toml").write_text("")
    link = tmp_path / "trtbench.toml"
    link.symlink_to(tmp_path / "own.toml")
    os.lchown(link, 12345, 12345)
    assert boundary.why_untrusted(link) is not None


def test_escapes_become_visible_and_ordinary_text_stays() -> None:
    for text in ("plain", "größe × 2 – ok", "👩‍🔬", "two\nlines\tand tabs"):
        assert boundary.clean_text(text) == text
    assert boundary.clean_text("\x1b]0;owned\x07\x9b2J") == "\\x1b]0;owned\\x07\\x9b2J"
    assert boundary.clean_text("a\u202eb") == "a\\u202eb"
    assert boundary.clean_text(os.fsdecode(b"caf\xe9.onnx")) == "caf\\xe9.onnx"
    assert boundary.clean_line("a\nb\r") == "a\\x0ab\\x0d"


def test_every_cleaned_text_can_be_written_as_utf8_and_as_xml() -> None:
    from xml.etree import ElementTree

    text = "".join(map(chr, (*range(0x300), 0xD800, 0xDCFF, 0xFFFE, 0xFFFF, 0x1F600, 0x202E)))
    clean = boundary.xml_text(text)
    clean.encode()
    element = ElementTree.Element("a", {"b": clean})
    element.text = clean
    read = ElementTree.fromstring(ElementTree.tostring(element, "utf-8"))
    assert read.text == clean
    assert "\x1b" not in clean


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|'/c calc'!A0", "@SUM(A1)", "-x", "\t=1", "\r=1", "\n=1", "＝1"]
)
def test_cells_that_begin_a_formula_are_quoted(text: str) -> None:
    assert boundary.csv_cell(text) == "'" + text
    assert boundary.csv_cell(f'net\n{" " * 200}"=1') == f"net\n'{' ' * 200}\"=1"
    for mark in ";\t\n":  # ends a cell where a spreadsheet is told, or guesses, that it does
        if text[0] in "=+@-":
            assert boundary.csv_cell(f"net{mark}{text}") == f"net{mark}'{text}"


@pytest.mark.parametrize(
    "value", ["-3.5", "+1e-3", "a=b", "", 5, -2.5, None, "-inf", " " * 200 + "net", '"' * 10**5]
)
def test_cells_that_are_numbers_or_text_stay(value: object) -> None:
    assert boundary.csv_cell(value) == value


SECRET = "hunter2-and-more"


@pytest.mark.parametrize(
    "text",
    [
        f"trtbench bench m.onnx --store postgresql://bench:{SECRET}@db/x",
        f"trtbench bench m.onnx --store postgresql://bench:p@{SECRET}@db/x",
        f"postgresql://db/x?user=a&password={SECRET}&sslmode=require",
        f"--db-password {SECRET} m.onnx",
        f"--db-password={SECRET}",
        f"--token '{SECRET}'",
        f"HF_TOKEN={SECRET} trtbench",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        f'Authorization: "Bearer {SECRET}"',
        f"authorization: bearer {SECRET}",
        f"https://x/?X-Amz-Signature={SECRET}",
        f"--opt api_key={SECRET}",
        f"https://{SECRET}{SECRET}@host/x",
        "s3://b?key=AKIA" + "ABCDEFGHIJKLMNOP",
        f"postgresql://bench:it's{SECRET}@db/x",
        f'{{"password": "{SECRET}", "batch": 1}}',
        f'{{"headers": {{"X-Api-Key" : "a\\"{SECRET}"}}}}',
        f"{{'db_token': '{SECRET}'}}",
        f'"{{\\"secret_key\\": \\"{SECRET}\\"}}"',
        f"DefaultEndpointsProtocol=https;AccountKey={SECRET};EndpointSuffix=x",
        f"SECRET_KEY={SECRET}",
        f"DB_PASS={SECRET} trtbench",
        f"https://maps/?key={SECRET}",
        f"mysql://h/db?user=a&pass={SECRET}",
        f"Authorization: Token {SECRET}",
        f"-H 'Proxy-Authorization: {SECRET}'",
        f'"Authorization": "ApiKey {SECRET}"',
        f"Cookie: theme=dark; session={SECRET}",
        f"ProxyCommand=sshpass -p {SECRET} ssh -W %h:%p gate",
        f"password='it''s {SECRET}' host=db",
        f"nvapi-{SECRET}{SECRET}",
        f"AIza{SECRET}{SECRET}{SECRET}",
        f"-----BEGIN EC PRIVATE KEY-----\nb3Blb\n{SECRET}\n-----END EC PRIVATE KEY-----",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    masked = boundary.mask(text)
    assert SECRET not in masked
    assert "AKIAABC" not in masked
    assert "***" in masked
    assert boundary.mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "trtbench bench m.onnx --batch 8 --opt max_tokens=128 --duration 3s",
        "http://tracking:5000/runs",
        "http://tracking:5000/pkg@1.2",
        "postgresql://bench@db.example/bench",
        "--model resnet18@v2 --tag a:b --tokenizer fast",
        "user@192.168.1.20:2222",
        "sig 0.05, author: me",
        "first pass: 3 ms, fusion_pass=2, &&&& PASSED",
        "proxies 'http://a:80','b@c'",
        "--shapes=token:1x128,auth:4x4",
        '{"shapes": {"token": "1x128", "auth": [1, 2]}, "primary_key": "id", "Name": "token"}',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert boundary.mask(text) == text


def test_a_secret_that_is_a_word_of_its_own_is_masked() -> None:
    words = ["x", "--password", "two words", "--verbose", "--token=abc", "plain"]
    masked = ["x", "--password", "***", "--verbose", "--token=***", "plain"]
    assert boundary.mask_words(words) == masked
    assert boundary.mask_values({"PGPASSWORD": "x y", "PATH": "/bin"}) == {
        "PGPASSWORD": "***", "PATH": "/bin",
    }  # fmt: skip


def test_files_beyond_a_size_are_refused_before_they_are_read(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with open(large, "wb") as file:
        file.truncate(2**40)  # takes no space
    with pytest.raises(InputError, match="too large"):
        boundary.read_bytes(large)
    small = tmp_path / "small"
    small.write_bytes(b"abc")
    assert boundary.read_bytes(small, most=3) == b"abc"
    assert boundary.read_bytes(Path("/proc/self/stat")).startswith(b"%d " % os.getpid())


def test_deep_brackets_are_refused_and_those_in_texts_do_not_count() -> None:
    boundary.check_nesting('{"a": [1, {"b": "%s"}]}' % ("[" * 500), where="x")
    boundary.check_nesting("[]" * 5000, where="x")
    boundary.check_nesting('["\\"' + "[" * 500 + '"]', where="x")
    for text in ("[" * 65, '{"a":' * 100000, b"[" * 10**6):
        with pytest.raises(InputError, match="deeply"):
            boundary.check_nesting(text, where="x.json")


def test_values_that_repeat_or_contain_themselves_are_refused() -> None:
    boundary.check_parts({"a": [1, [2, {"b": ()}]]}, where="x")
    circle: list[object] = []
    circle += [circle] * 1000
    laughs: list[object] = ["lol"]
    for _ in range(12):
        laughs = [laughs] * 10
    deep: object = 1
    for _ in range(100):
        deep = {"a": deep}
    for value in (circle, laughs, deep):
        with pytest.raises(InputError, match="deeply"):
            boundary.check_parts(value, where="sweep.yaml")
