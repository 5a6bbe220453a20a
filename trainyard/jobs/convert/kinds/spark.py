"""SparkApplication of the Spark operator: converted to a standalone cluster that lives as long as the job.

The driver runs in client mode beside the cluster's master, and a fixed number of executors are the cluster's workers;
all pods are one gang. Executors connect to the driver by its host name in the job's headless Service.
"""

from __future__ import annotations

from typing import Final

from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.gang_scheduling import COMPUTED_MESSAGE, read_priority, read_queue, read_schedulers
from trainyard.jobs.convert.kinds.spark_pods import read_pod
from trainyard.jobs.convert.kinds.spark_settings import SparkSettings
from trainyard.jobs.convert.kinds.spark_sizes import (
    DRIVER,
    EXECUTOR,
    cores_of,
    memory_of,
    number_of_executors,
    offer_devices,
)
from trainyard.jobs.convert.kinds.spark_submit import submit_options
from trainyard.jobs.convert.part import Part, end_with_main
from trainyard.jobs.convert.restarts import NEVER
from trainyard.jobs.convert.run_policy import read_lifetime, read_suspend

_PORT: Final = 7077
_FAILURES: Final = "spark.executor.maxNumFailures"
_BASH: Final = ("/bin/bash", "-c")
_HOST: Final = "SPARK_DRIVER_HOST"
# The pods have the size of Spark on Kubernetes, which runs neither master nor worker; by default, each takes 1 GiB.
_DAEMON: Final = {"name": "SPARK_DAEMON_MEMORY", "value": "256m"}
_CLASS: Final = '"${SPARK_HOME:-/opt/spark}"/bin/spark-class'
_LEAD: Final = f"""{_CLASS} org.apache.spark.deploy.master.Master --host "${_HOST}" --port {_PORT} &
until (exec 3<>"/dev/tcp/${_HOST}/{_PORT}") 2>/dev/null; do sleep 1; done
exec "${{SPARK_HOME:-/opt/spark}}"/bin/spark-submit "$@"
"""
_JOIN: Final = f"""until (exec 3<>"/dev/tcp/${_HOST}/{_PORT}") 2>/dev/null; do sleep 1; done
exec {_CLASS} org.apache.spark.deploy.worker.Worker "$@" "spark://${_HOST}:{_PORT}"
"""
_MOST_RESTARTS: Final = 3
_RESTARTS: Final = ("Never", "OnFailure", "Always")
_WITHOUT: Final = {
    "monitoring": ("no metrics are exposed", "set spark.metrics.* in sparkConf"),
    "sparkUIOptions": ("there is no Service or Ingress for the user interface", "use `kubectl port-forward`"),
    "driverPodDisruptionBudget": ("the driver has no PodDisruptionBudget", "make one that selects its pod"),
    "driverIngressOptions": ("there is no Ingress for the driver", "use `kubectl port-forward`"),
    "proxyUser": ("the application runs as the user of the image", "set securityContext.runAsUser"),
}


def convert(draft: Draft) -> None:
    """Convert a SparkApplication to a draft."""
    source = draft.source
    settings = SparkSettings(source)
    executors = number_of_executors(settings)
    source.same("spec.executor.instances", "number of pods")
    driver = read_pod(draft, settings, DRIVER, 1)
    executor = read_pod(draft, settings, EXECUTOR, executors)
    if account := driver.pod.get("serviceAccountName"):
        executor.pod.setdefault("serviceAccountName", account)
    _limit_failures(settings, executor)
    draft.nodes = 1
    draft.train(driver)
    draft.succeed_with(driver.name)
    end_with_main(driver)
    host = driver.first_host(draft.name)
    options = submit_options(draft, settings, executors)
    driver.container["command"] = [*_BASH, _LEAD, DRIVER]
    driver.container["args"] = [
        f"--master=spark://{host}:{_PORT}",
        "--deploy-mode=client",
        f"--conf=spark.driver.host={host}",
        *options,
    ]
    executor.container["command"] = [*_BASH, _JOIN, EXECUTOR]
    executor.container["args"] = [
        f"--cores={cores_of(settings, EXECUTOR)}",
        f"--memory={memory_of(settings, EXECUTOR)}",
    ]
    offer_devices(settings, executor.container)
    for part in draft.parts:
        own = part.container.get("env", ())
        daemon = [] if any(each["name"] == _DAEMON["name"] for each in own) else [_DAEMON]
        part.container["env"] = [{"name": _HOST, "value": host}, *daemon, *own]
        part.pod["restartPolicy"] = NEVER
    _read_type(draft)
    _read_restarts(draft, driver)
    for name, (message, fix) in _WITHOUT.items():
        source.lost(f"spec.{name}", message, fix)
    read_suspend(draft, "spec.suspend")
    read_lifetime(draft, "spec.timeToLiveSeconds")
    _read_scheduler(draft)


def _limit_failures(settings: SparkSettings, executor: Part) -> None:
    """Read how many executors may fail; Spark makes others in their place."""
    limit = settings.whole("", _FAILURES, "backoffLimit of the Job")
    if limit is not None:
        executor.job["backoffLimit"] = limit
        return
    message = "a Job gives up after 6 failures of its pods, where Spark makes executors again"
    note = FieldFinding.of(executor.role, None, Fidelity.CHANGED, message, f"set sparkConf {_FAILURES}")
    settings.source.notes.append(note)


def _read_type(draft: Draft) -> None:
    source = draft.source
    for name in ("type", "sparkVersion", "pythonVersion", "mode"):
        source.text(f"spec.{name}")
    source.same("spec.type", "what spark-submit sees in the application's file")
    source.same("spec.sparkVersion", "the image says which version runs")
    source.same("spec.pythonVersion", "the image says which version runs")
    if source.peek("spec.mode") == "client":
        source.same("spec.mode", "the driver runs in client mode")
    else:
        source.changed("spec.mode", "the driver runs in client mode, in a pod of the job")


def _read_restarts(draft: Draft, driver: Part) -> None:
    source = draft.source
    path = "spec.restartPolicy"
    source.keys(path)
    policy = source.text(f"{path}.type") or "Never"
    if policy not in _RESTARTS:
        raise source.malformed(f"{path}.type", f"must be one of {', '.join(_RESTARTS)}, but is {policy!r}")
    retries = source.integer(f"{path}.onFailureRetries")
    source.integer("spec.failureRetries")
    source.changed("spec.failureRetries", "has no effect, as for the operator: onFailureRetries counts")
    driver.job["backoffLimit"] = 0
    if policy == "Never":
        source.same(f"{path}.type", "backoffLimit 0 of the driver")
        source.changed(f"{path}.onFailureRetries", "has no effect: the application is never restarted")
    elif policy == "Always":
        draft.restart(_MOST_RESTARTS)
        message = f"{_MOST_RESTARTS} restarts after failures, and none after a success, instead of one each time"
        source.lost(f"{path}.type", message, "set failurePolicy.maxRestarts in the runtime's template")
        source.changed(f"{path}.onFailureRetries", "has no effect, as for the operator")
    else:
        if retries:
            draft.restart(retries)
            message = "failurePolicy.maxRestarts: driver and executors are made again when the driver fails"
            source.same(f"{path}.type", message)
        else:
            source.changed(f"{path}.type", "no restarts, as for the operator without onFailureRetries")
        source.same(f"{path}.onFailureRetries", "failurePolicy.maxRestarts")
    names = ("onSubmissionFailureRetries", "onSubmissionFailureRetryInterval", "onFailureRetryInterval")
    for name in names:
        source.changed(f"{path}.{name}", "nothing is submitted to another controller, and restarts come at once")
    source.changed("spec.retryInterval", "restarts come at once")


def _read_scheduler(draft: Draft) -> None:
    source = draft.source
    path = "spec.batchSchedulerOptions"
    source.keys(path)
    read_queue(draft, f"{path}.queue")
    read_schedulers(draft, "spec.batchScheduler")
    read_priority(draft, f"{path}.priorityClassName")
    for role in (DRIVER, EXECUTOR):
        source.same(f"spec.{role}.priorityClassName", "priorityClassName of the pods")
    source.changed(f"{path}.resources", COMPUTED_MESSAGE)


CONVERTERS: Final = {("sparkoperator.k8s.io/v1beta2", "SparkApplication"): convert}
