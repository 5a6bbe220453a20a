"""Metadata of objects that a TrainJob owns."""

from __future__ import annotations

from trainyard.api import Body, TrainJob
from trainyard.api.constants import API_VERSION, TRAIN_JOB


def owned_metadata(train_job: TrainJob, name: str) -> Body:
    """Return the metadata of an object that is owned by a TrainJob."""
    metadata: Body = {"name": name, "namespace": train_job.metadata.namespace or "default"}
    if train_job.metadata.uid:
        metadata["ownerReferences"] = [
            {
                "apiVersion": API_VERSION,
                "blockOwnerDeletion": True,
                "controller": True,
                "kind": TRAIN_JOB,
                "name": train_job.metadata.name,
                "uid": train_job.metadata.uid,
            }
        ]
    return metadata
