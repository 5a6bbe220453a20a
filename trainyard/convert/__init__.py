"""Convert legacy jobs to TrainJobs: training operator, MPI operator, KubeRay, Spark operator, Volcano. No I/O."""

from trainyard.convert.conversion import ALWAYS, AUTO, Conversion
from trainyard.convert.converted_documents import convert_documents
from trainyard.convert.kinds import KINDS
from trainyard.convert.note import Fidelity, Note

__all__ = ["ALWAYS", "AUTO", "KINDS", "Conversion", "Fidelity", "Note", "convert_documents"]
