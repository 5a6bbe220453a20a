"""Labels, node selectors, tolerations and gates that are removed from a suspended TrainJob.

JobSet's controller merges those of a resumed JobSet into its Jobs (jobset#1294), so what is removed from the JobSet
stays on the pods. A JobSet is therefore recreated if its rendering lacks an entry that an earlier one had. A hash of
each entry is kept in an annotation: what webhooks added to the stored JobSet was not rendered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import orjson

from trainyard.kube.resource import Object

RENDERED_PARTS: Final = "trainyard.dev/rendered-parts"
"""Annotation: hashes of the entries of mutable fields that were rendered."""

_MAPS: Final = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))
_LISTS: Final = (("spec", "tolerations"), ("spec", "schedulingGates"))


def rendered_parts(spec: Object) -> str:
    """Return the value of the annotation for a rendered JobSet's spec."""
    return " ".join(sorted(set(_hashes(spec))))


def with_parts(rendered: Object, stored: Object) -> dict[str, str]:
    """Return the annotation of a stored JobSet that gets the mutable fields of a rendered one.

    It stays as it is while the Jobs may have an entry that is not rendered any more, and where it was not set.
    """
    if RENDERED_PARTS not in (stored["metadata"].get("annotations") or {}) or lacks_parts(rendered, stored):
        return {}
    return {RENDERED_PARTS: rendered_parts(rendered["spec"])}


def lacks_parts(rendered: Object, stored: Object) -> bool:
    """Return whether a rendered JobSet lacks an entry with which the stored one was rendered."""
    before = (stored["metadata"].get("annotations") or {}).get(RENDERED_PARTS)
    return isinstance(before, str) and not set(before.split()) <= set(_hashes(rendered["spec"]))


def _hashes(spec: Object) -> Iterator[str]:
    for job in spec.get("replicatedJobs") or ():
        template = job["template"]["spec"]["template"]
        for part, field in _MAPS:
            # A changed value replaces the one of the Jobs.
            yield from (_hash(job["name"], field, key) for key in (template.get(part) or {}).get(field) or {})
        for part, field in _LISTS:
            yield from (_hash(job["name"], field, entry) for entry in (template.get(part) or {}).get(field) or ())


def _hash(job: str, field: str, entry: Any) -> str:
    text = orjson.dumps((job, field, entry), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=5).hexdigest()
