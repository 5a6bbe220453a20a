"""JobSet's CustomResourceDefinition, which is installed and whose schema is part of the one of runtimes."""

from __future__ import annotations

from typing import Any, Final

from trainyard import upstream

JOB_SET_CRD: Final = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
"""The upstream file."""


def custom_resource_definition(version: str) -> dict[str, Any]:
    """Return JobSet's CustomResourceDefinition without descriptions."""
    return upstream.without_descriptions(upstream.documents("jobset", version, JOB_SET_CRD)[0])
