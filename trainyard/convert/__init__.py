"""Convert legacy jobs to TrainJobs: training operator, MPI operator, KubeRay, Spark operator, Volcano. No I/O."""

from trainyard.convert.conversion import ALWAYS, AUTO, Conversion
from trainyard.convert.converted_documents import convert_documents
from trainyard.convert.field_finding import Fidelity, FieldFinding
from trainyard.convert.kinds import KINDS

__all__ = ["ALWAYS", "AUTO", "KINDS", "Conversion", "Fidelity", "FieldFinding", "convert_documents"]
