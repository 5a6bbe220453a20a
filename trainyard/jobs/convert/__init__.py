"""Convert legacy jobs to TrainJobs: training operator, MPI operator, KubeRay, Spark operator, Volcano. No I/O."""

from trainyard.jobs.convert.conversion import ALWAYS, AUTO, Conversion
from trainyard.jobs.convert.converted_documents import convert_documents
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.kinds import KINDS

__all__ = ["ALWAYS", "AUTO", "KINDS", "Conversion", "Fidelity", "FieldFinding", "convert_documents"]
