"""The one list of deliberate differences; objects are changed in its order."""

from collections.abc import Mapping

from tests.compatibility.differences.admission import ADMISSION
from tests.compatibility.differences.difference import Difference
from tests.compatibility.differences.frameworks import FRAMEWORKS
from tests.compatibility.differences.gangs import GANGS
from tests.compatibility.differences.kueue import KUEUE
from tests.compatibility.differences.labels import LABELS
from tests.compatibility.differences.mpi import MPI
from tests.compatibility.differences.rendering import RENDERING

AREAS: Mapping[str, tuple[Difference, ...]] = {
    "Admission": (*ADMISSION, *KUEUE),
    "Rendering": RENDERING,
    "Frameworks": (*LABELS, *MPI, *FRAMEWORKS),
    "Gangs": GANGS,
}
"""Differences by section of the page."""
DIFFERENCES: tuple[Difference, ...] = tuple(each for differences in AREAS.values() for each in differences)
