"""Draw the packages and their imports on one sheet (SVG), in the layers that import-linter checks.

``python tools/draw_packages.py packages.svg``; Sphinx calls ``packages_page`` for the reference.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "trtbench"
WIDTH, ROW, BOX_W, BOX_H = 1120, 84, 118, 44


def layers() -> list[list[str]]:
    """The packages of each layer, top first, as pyproject.toml has them."""
    found = re.search(
        r"^layers = \[(.*?)\n\]", (ROOT / "pyproject.toml").read_text("utf-8"), re.S | re.M
    )
    assert found, "pyproject.toml has no layers"
    rows = re.findall(r'"([^"]+)"', found[1])
    return [[each.strip().removeprefix("trtbench.") for each in re.split("[|:]", r)] for r in rows]


def imports() -> Counter[tuple[str, str]]:
    """How many modules of a package import another package."""
    found: Counter[tuple[str, str]] = Counter()
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        names = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
            elif isinstance(node, ast.Import):
                names |= {each.name for each in node.names}
        targets = {name.split(".")[1] for name in names if name.startswith("trtbench.")}
        found.update((own, target) for target in targets - {own})
    return found


def without_detours(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows that no chain of other arrows replaces."""
    below: dict[str, set[str]] = {}

    def reached(name: str) -> set[str]:
        if name not in below:
            direct = {target for source, target in pairs if source == name}
            below[name] = direct.union(*(reached(target) for target in direct))
        return below[name]

    return {
        (source, target)
        for source, target in pairs
        if not any(
            target in reached(between)
            for start, between in pairs
            if start == source and between != target
        )
    }


def drawing() -> str:
    """The sheet as SVG: a row per layer, a box per package with its lines and files."""
    rows = layers()
    places = {
        name: (WIDTH * (column + 0.5) / len(row), ROW * (index + 0.5))
        for index, row in enumerate(rows)
        for column, name in enumerate(row)
    }
    shapes = []
    known = {
        (source, target)
        for source, target in imports()
        if source in places and target in places and places[source][1] < places[target][1]
    }
    for source, target in sorted(without_detours(known)):
        (x1, y1), (x2, y2) = places[source], places[target]
        y1, y2 = y1 + BOX_H / 2, y2 - BOX_H / 2 - 3
        bend = (y2 - y1) / 2
        shapes.append(
            f'<path d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} '
            f'{x2:.0f} {y2:.0f}" fill="none" stroke="#8a94a6" marker-end="url(#tip)"/>'
        )
    for name, (x, y) in places.items():
        one = SOURCE / f"{name}.py"
        files = [one] if one.is_file() else sorted((SOURCE / name).rglob("*.py"))
        lines = sum(len(each.read_text("utf-8").splitlines()) for each in files)
        size = f"{lines:,} lines" + (f" in {len(files)}" if len(files) > 1 else "")
        shapes.append(
            f'<rect x="{x - BOX_W / 2:.0f}" y="{y - BOX_H / 2:.0f}" width="{BOX_W}" '
            f'height="{BOX_H}" rx="5" fill="#f4f6fa" stroke="#33415c"/>'
            f'<text x="{x:.0f}" y="{y - 3:.0f}" font-weight="600">{name}</text>'
            f'<text x="{x:.0f}" y="{y + 14:.0f}" font-size="11">{size.replace(",", " ")}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW * len(rows)}" '
        'font-family="sans-serif" font-size="13" text-anchor="middle" fill="#111827">'
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto">'
        '<path d="M0 0 L6 3 L0 6z" fill="#8a94a6"/></marker></defs>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(shapes)}</svg>\n'
    )


def packages_page(folder: Path) -> str:
    """Write the drawing to a folder; gives the page that shows it."""
    (folder / "packages.svg").write_text(drawing(), "utf-8")
    return (
        "# Packages\n\nPackages of `src/trtbench` in the layers that the tests check, with their "
        "size. An arrow is an import;\narrows that a chain of others implies are left out. What "
        "each package holds is in [design](../design.md).\n\n![Packages](packages.svg)\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawing(), "utf-8")
