"""YAML as others wrote it: plain values only, of bounded size, dates as the texts they are."""

from __future__ import annotations

from trtbench.boundary import check_nesting, check_parts
from trtbench.errors import UnavailableError, UsageError


def yaml_from_text(text: str, *, where: str) -> object:
    """Read YAML."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise UnavailableError(
            "YAML files need the package PyYAML", fix="pip install pyyaml"
        ) from None
    check_nesting(text, where=where)

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Takes dates for the texts they are."""

        yaml_implicit_resolvers = {
            first: [each for each in known if each[0] != "tag:yaml.org,2002:timestamp"]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        found = yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise UsageError(f"{where} is not YAML", facts={"reason": reason}) from None
    check_parts(found, where=where)
    return found
