"""YAML as others wrote it: plain values only, of bounded size, dates as the texts they are."""

from __future__ import annotations

from trtbench.boundary import check_nesting, check_parts
from trtbench.errors import UnavailableError, UsageError

MOST_MERGED = 10_000
MOST_DIGITS = 400
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


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
        """Takes dates for the texts they are, and merges no more than a file can mean."""

        yaml_implicit_resolvers = {
            first: [each for each in known if each[0] != "tag:yaml.org,2002:timestamp"]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Count before PyYAML copies what ``<<`` names, as often as it is named."""
            for key, value in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    named = value.value if isinstance(value, yaml.SequenceNode) else [value]
                    maps = [each for each in named if isinstance(each, yaml.MappingNode)]
                    for each in maps:
                        self.flatten_mapping(each)
                    if sum(len(each.value) for each in maps) > MOST_MERGED:
                        raise ValueError("its merged keys repeat themselves without end")
            super().flatten_mapping(node)

        def construct_scalar(self, node: yaml.ScalarNode) -> object:
            """Refuse numbers whose digits, or minutes of minutes, take hours to count."""
            if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
                raise ValueError(f"it has a number of {len(node.value)} digits")
            return super().construct_scalar(node)

    try:
        found = yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise UsageError(f"{where} is not YAML", facts={"reason": reason}) from None
    check_parts(found, where=where)
    return found
