"""Run the command, `python -m experiments`."""

from experiments.command import app

if __name__ == "__main__":
    app(prog_name="python -m experiments")
