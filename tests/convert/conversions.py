"""The inputs of these tests: one file a case, with its golden output beside it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from trainyard.api import Body
from trainyard.data import data_folder
from trainyard.jobs.convert.conversion import AUTO, Conversion
from trainyard.jobs.convert.converted_documents import convert_documents
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.manifests.documents import objects

FOLDER = Path(__file__).parent
INPUTS = sorted((FOLDER / "inputs").glob("*.yaml"))
NAMES = [path.stem for path in INPUTS]


@cache
def catalog() -> dict[str, Body]:
    """Return the runtimes that Trainyard ships, by name."""
    return {body["metadata"]["name"]: body for body in load_catalog(data_folder("runtimes")).objects()}


def text_of(name: str) -> str:
    return (FOLDER / "inputs" / f"{name}.yaml").read_text()


def converted(name: str, *, runtime: str = AUTO) -> list[Conversion]:
    return convert_documents({f"{name}.yaml": text_of(name)}, catalog(), runtime=runtime)


def conversion_of(*bodies: Body, runtime: str = "always") -> Conversion:
    """Return the conversion of one job, beside which there may be other objects."""
    text = "\n---\n".join(map(json.dumps, bodies))
    conversions = convert_documents({"job": text}, catalog(), runtime=runtime)
    assert len(conversions) == len(bodies)
    return max(conversions, key=lambda each: len(each.objects))


def own_runtime(conversion: Conversion) -> Body:
    """Return the spec of the JobSets of the runtime that is written for the job."""
    (found,) = (body for body in conversion.objects if body["kind"] == "TrainingRuntime")
    spec: Body = found["spec"]["template"]["spec"]
    return spec


def replicated_jobs(conversion: Conversion) -> dict[str, Body]:
    return {each["name"]: each for each in own_runtime(conversion)["replicatedJobs"]}


def pod_templates(conversion: Conversion) -> dict[str, Body]:
    """Return the pod templates of the job's own runtime by replicatedJob."""
    return {name: each["template"]["spec"]["template"] for name, each in replicated_jobs(conversion).items()}


def main_container(conversion: Conversion, name: str) -> Body:
    found: Body = pod_templates(conversion)[name]["spec"]["containers"][0]
    return found


def lost(conversion: Conversion) -> list[str]:
    return [str(note) for note in conversion.lost]


def bodies_of(name: str) -> list[Any]:
    """Return the objects of an input, typed lists unpacked."""
    found = []
    for body in objects(text_of(name)):
        kind = str(body["kind"])
        if isinstance(body.get("items"), list):
            about = {"apiVersion": body["apiVersion"], "kind": kind.removesuffix("List")}
            found += [{**about, **item} for item in body["items"]]
        else:
            found.append(body)
    return found
