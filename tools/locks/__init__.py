"""Writers of lock files, which `make images-lock` and `make upstream-lock` run."""
