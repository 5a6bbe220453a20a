"""Interface of frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, TypeVar

from trainyard.api import Body, KubernetesModel
from trainyard.api.extensions import PolicyField
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.resolution import Resolution
from trainyard.jobs.render.resolved_job import ResolvedJob

Policy = TypeVar("Policy", bound=KubernetesModel)


class Framework(PolicyField[Policy]):
    """A framework of mlPolicy; the default of each step is a no-op.

    The steps are called in this order: resolve, validate, and, if there are no errors, build.
    """

    reserved: ClassVar[frozenset[str]] = frozenset()
    """Variables that the framework sets and that are rejected in a TrainJob."""

    variables: ClassVar[tuple[str, ...]] = ()
    """Variables of the framework for which runtimes and TrainJobs get a warning; a trailing * matches any suffix."""

    may_be_set: ClassVar[bool] = False
    """Whether a TrainJob, as opposed to a runtime, may set these variables without a warning."""

    ranks: ClassVar[tuple[str, ...]] = ()
    """Variables by which its programs know the rank of a process; one value in several pods is found."""

    sizes: ClassVar[tuple[str, ...]] = ()
    """Variables by which its programs know the number of processes."""

    coordinator: ClassVar[str | None] = None
    """Variable by which a TrainJob names a coordinator of its own, and may then number the processes itself.

    None: a launcher sets ranks and sizes for the processes that it starts, so that wrong ones are no errors.
    """

    launched: ClassVar[bool] = False
    """Whether a launcher starts the processes; numProcPerNode is then a number, never a word such as gpu."""

    one_process_a_device: ClassVar[bool] = False
    """Whether each of the numProcPerNode processes of a node uses one device."""

    splits_command: ClassVar[bool] = False
    """Whether the first word of the command may be a whole command line with blanks."""

    catalog_runtime: ClassVar[str | None] = None
    """Runtime of the catalog that a converted job of one replicatedJob gets if it fits, or None for one of its own.

    With the suffix ``-gang``, the runtime starts the job inside one rack.
    """

    keys: ClassVar[str | None] = None
    """Kind of the TrainJob's generated Secret, a module of ``trainyard.controller.keys``, or None for no Secret.

    The framework returns the Secret among its objects. Its values come from ``keys`` of the context, otherwise they are
    placeholders. The creator of the objects generates the values once, before it creates the Secret.
    """

    children: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """Suffixes of the names of its ConfigMaps and Secrets, by kind; the TrainJob's name precedes the suffix.

    Rule OBJ-001 reserves these names: only the platform writes such objects.
    """

    def policy(self, job: JobView) -> Policy | None:
        """Return the runtime's policy for this framework, or None if unset."""
        return job.ml_policy.of(type(self))

    def resolve(self, resolution: Resolution) -> None:
        """Decide counts and resources of the pods, where they are not those of the trainer."""

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield errors of the TrainJob and its runtime, and warnings about settings with unexpected effects."""
        return ()

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Set the environment of the framework in the pods, and return its further objects (ConfigMaps, Secrets)."""
        return ()
