"""Libraries that satisfy the loader, so that TensorRT's real Python bindings import without it.

The bindings ask for ``libnvinfer.so.N`` and a handful of functions. Empty libraries of these names,
made with gcc at test time, let every class, enum and signature of a version be looked at; only
what would really call TensorRT (``Builder()``, ``Runtime()``) fails.
"""

import re
import subprocess
from pathlib import Path

NVIDIA = re.compile(r"libnv\w+\.so\.\d+")
ELSEWHERE = re.compile(r"_?Py|dl(?:open|sym|close|error)\Z")
"""Undefined names without a version that Python and the C library define."""


def make_stub_libraries(extension: Path, folder: Path) -> Path:
    """Make the libraries that an extension module needs; the first one defines all it misses."""
    folder.mkdir(parents=True, exist_ok=True)
    names = needed_libraries(extension)
    functions = undefined_functions(extension)
    for index, name in enumerate(names):
        code = "".join(f"void *{each}(void) {{ return 0; }}\n" for each in functions)
        _compile(code if index == 0 else "", folder / name)
    return folder


def needed_libraries(extension: Path) -> list[str]:
    """List NVIDIA's libraries that the loader would look for."""
    text = _readelf("--dynamic", extension)
    return [name for name in re.findall(r"Shared library: \[(.*?)\]", text) if NVIDIA.match(name)]


def undefined_functions(extension: Path) -> list[str]:
    """List what the extension expects of NVIDIA's libraries: undefined, strong, unversioned."""
    found = []
    for line in _readelf("--dyn-syms", extension).splitlines():
        fields = line.split()
        if len(fields) != 8 or fields[6] != "UND" or fields[4] != "GLOBAL":
            continue
        if "@" not in fields[7] and not ELSEWHERE.match(fields[7]):
            found.append(fields[7])
    return found


def _compile(code: str, library: Path) -> None:
    source = library.with_name(f"{library.name}.c")
    source.write_text(code)
    flags = ["-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{library.name}", "-o", str(library)]
    subprocess.run(["gcc", *flags, str(source)], check=True, capture_output=True)


def _readelf(what: str, path: Path) -> str:
    command = ["readelf", "--wide", what, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
