"""Trainyard: a distributed training platform for Kubernetes as one reviewed program."""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Return the version, which few need and which takes long to find."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("trainyard-platform")
