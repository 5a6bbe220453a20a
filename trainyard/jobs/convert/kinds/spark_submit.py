"""Command line of spark-submit that is equivalent to a SparkApplication."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.kinds.spark_conf_pods import lose_rest
from trainyard.jobs.convert.kinds.spark_settings import SparkSettings

_DEPENDENCIES: Final = {
    "jars": "jars",
    "files": "files",
    "pyFiles": "py-files",
    "packages": "packages",
    "excludePackages": "exclude-packages",
    "repositories": "repositories",
    "archives": "archives",
}
_OF_THE_JOB: Final = {
    "spark.cores.max": "has no effect on Kubernetes, and would leave executors out here",
    "spark.driver.bindAddress": "not passed: the driver has the address of its pod",
    "spark.driver.host": "not passed: the driver has the host name of its pod",
    "spark.master": "not passed: the master runs beside the driver",
    "spark.submit.deployMode": "not passed: the driver runs in client mode",
}
_JAVA_OPTIONS: Final = "spark.executor.extraJavaOptions"


def submit_options(draft: Draft, settings: SparkSettings, executors: int) -> list[str]:
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
    options = [*_class(draft), *_configuration(draft, settings, executors), *_dependencies(draft)]
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


def _configuration(draft: Draft, settings: SparkSettings, executors: int) -> Iterator[str]:
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
        settings.override("spark.driver.extraJavaOptions", "spec.driver.javaOptions")
        source.changed("spec.driver.javaOptions", "--driver-java-options of spark-submit")
    options = source.text("spec.executor.javaOptions")
    if options:
        yield f"--conf={_JAVA_OPTIONS}={options}"
        settings.override(_JAVA_OPTIONS, "spec.executor.javaOptions")
        source.changed("spec.executor.javaOptions", f"{_JAVA_OPTIONS} of spark-submit")
    lose_rest(settings)
    for key, message in _OF_THE_JOB.items():
        if key in settings.conf:
            settings.leave_out(key, message)
    for key, value in settings.rest().items():
        yield f"--conf={key}={value}"
        settings.note(key, "option --conf of spark-submit")
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
