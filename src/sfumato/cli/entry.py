"""Entry point of the command `sfumato`; reports a missing package without a traceback."""

import sys

from sfumato.extras import missing_extra_message


def main() -> None:
    """Run the command line; if a package is missing, print how to install it and exit with 1."""
    try:
        from sfumato.cli.main import app

        app()
    except ImportError as error:
        # An error without a name was raised by this package, with a message for the user.
        command = " ".join(["sfumato", *(word for word in sys.argv[1:2] if word[:1] != "-")])
        why = str(error) if error.name is None else missing_extra_message(f"`{command}`", error)
        if why is None:
            raise
        sys.exit(f"Error: {why}")
    except KeyboardInterrupt:  # during the imports; later, typer exits with the same code
        sys.exit(130)


if __name__ == "__main__":
    main()
