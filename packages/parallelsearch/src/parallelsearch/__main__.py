"""`python -m parallelsearch`: the command line."""

from parallelsearch.cli.main import run

if __name__ == "__main__":
    run()
