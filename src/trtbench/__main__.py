"""The program ``trtbench``, and ``python -m trtbench``: the command line, started quickly."""

from trtbench.host.cache import keep_own_bytecode


def main() -> None:
    keep_own_bytecode()
    from trtbench import cli

    cli.main()


if __name__ == "__main__":
    main()
