"""``python -m trainyard`` is the command ``trainyard``."""

from trainyard.cli import main

if __name__ == "__main__":
    main()
