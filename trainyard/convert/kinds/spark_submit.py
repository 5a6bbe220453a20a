"""Command line of spark-submit that is equivalent to a SparkApplication."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.convert.draft import Draft

__all__ = ["submit_options"]

_DEPENDENCIES: Final = {
    "jars": "jars",
    "files": "files",
    "pyFiles": "py-files",
    "packages": "packages",
    "excludePackages": "exclude-packages",
    "repositories": "repositories",
    "archives": "archives",
}
_OF_KUBERNETES: Final = "spark.kubernetes."
_JAVA_OPTIONS: Final = "spark.executor.extraJavaOptions"


def submit_options(draft: Draft, executors: int) -> list[str]:
    """Return the options, the application's file and its arguments.

    Parameters
    ----------
    executors
        Number of executors.
    """
    source = draft.source
    file = source.text("spec.mainApplicationFile")
    if not file:
        raise source.malformed("spec.mainApplicationFile", "is missing")
    source.same("spec.mainApplicationFile", "argument of spark-submit")
    options = [*_class(draft), *_configuration(draft, executors), *_dependencies(draft)]
    arguments = source.items("spec.arguments", str)
    source.same("spec.arguments", "arguments of spark-submit")
    return [*options, file, *arguments]


def _class(draft: Draft) -> Iterator[str]:
    source = draft.source
    name = source.text("spec.mainClass")
    if name:
        yield f"--class={name}"
        source.same("spec.mainClass", "option --class of spark-submit")
    metadata = source.peek("metadata.name")
    yield f"--name={metadata}"


def _configuration(draft: Draft, executors: int) -> Iterator[str]:
    source = draft.source
    memory = source.text("spec.driver.memory")
    if memory:
        yield f"--driver-memory={memory}"
    memory = source.text("spec.executor.memory")
    if memory:
        yield f"--executor-memory={memory}"
    cores = source.integer("spec.executor.cores", 1)
    if cores is not None:
        yield f"--executor-cores={cores}"
    yield f"--conf=spark.executor.instances={executors}"
    options = source.text("spec.driver.javaOptions")
    if options:
        yield f"--driver-java-options={options}"
        source.changed("spec.driver.javaOptions", "--driver-java-options of spark-submit")
    options = source.text("spec.executor.javaOptions")
    if options:
        yield f"--conf={_JAVA_OPTIONS}={options}"
        source.changed("spec.executor.javaOptions", f"{_JAVA_OPTIONS} of spark-submit")
    for key, value in source.texts("spec.sparkConf").items():
        if key.startswith(_OF_KUBERNETES):
            fix = "say it in the driver's or executor's own fields"
            source.lost(("spec", "sparkConf", key), "Spark makes no pods: those of the job are there already", fix)
        else:
            yield f"--conf={key}={value}"
            source.changed(("spec", "sparkConf", key), "option --conf of spark-submit")
    for key, value in source.texts("spec.hadoopConf").items():
        yield f"--conf=spark.hadoop.{key}={value}"
        source.changed(("spec", "hadoopConf", key), "option --conf of spark-submit")


def _dependencies(draft: Draft) -> Iterator[str]:
    source = draft.source
    source.keys("spec.deps")
    for field, option in _DEPENDENCIES.items():
        found = source.items(f"spec.deps.{field}", str)
        if found:
            yield f"--{option}={','.join(found)}"
            source.changed(f"spec.deps.{field}", f"option --{option} of spark-submit")
