"""The entry point of the command `sfumato`, which reports a missing package without a traceback."""

import sys

from sfumato.extras import needed


def main() -> None:
    """Run the command line; exit with 1, and the way to install it, if a package is missing."""
    try:
        from sfumato.cli.main import app

        app()
    except ImportError as error:
        # An error without a name was raised by our own code, with a message for the user.
        why = str(error) if error.name is None else needed(_command(), error)
        if why is None:
            raise
        sys.exit(f"Error: {why}")


def _command() -> str:
    """Return the command as it was typed, without its arguments."""
    words = [word for word in sys.argv[1:2] if not word.startswith("-")]
    return f"`{' '.join(['sfumato', *words])}`"


if __name__ == "__main__":
    main()
