"""Tests on nodes with kubelets; `make test-real` runs them in namespaces of their own."""
