"""Where the command `sfumato` begins: a package that is missing is a sentence, not a traceback."""

import sys

from sfumato.extras import needed


def main() -> None:
    """Run the command line; exits with 1 and says how to get what it lacks."""
    try:
        from sfumato.cli.main import app

        app()
    except ImportError as error:
        # Without a name it was not an import that failed: it is a sentence of ours already.
        why = str(error) if error.name is None else needed(_asked(), error)
        if why is None:
            raise
        sys.exit(f"Error: {why}")


def _asked() -> str:
    """The command as it was typed, without its arguments."""
    words = [word for word in sys.argv[1:2] if not word.startswith("-")]
    return f"`{' '.join(['sfumato', *words])}`"


if __name__ == "__main__":
    main()
