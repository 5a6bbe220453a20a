"""Names of accelerator resources: the table that render and the rules share.

A resource is an accelerator by its name, because device plug-ins choose the names and a manifest says nothing else
about them. Rego reads the table as ``data.trainyard.accelerators``, CEL as the placeholders ``{accelerators.KEY}``
(``policies/lib/accelerators.rego`` and ``accelerators.cel.yaml``).

A ``*`` at the start or the end of a pattern matches any text. Names of unknown vendors count where ``gpu`` is their
last word or starts the name or the domain; any other resource counts where a stack lists it (``acceleratorResources``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True)
class NamePatterns:
    """Patterns of resource names, by where they match."""

    exact: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> NamePatterns:
        """Return patterns from texts with a ``*`` at one end, at both, or at none."""
        found: dict[tuple[bool, bool], list[str]] = {}
        for each in patterns:
            found.setdefault((each.startswith("*"), each.endswith("*")), []).append(each.strip("*"))
        places = ((False, False), (False, True), (True, False), (True, True))
        return cls(*(tuple(found.get(place, ())) for place in places))

    def match(self, name: str) -> bool:
        """Return whether a pattern matches a name."""
        return (
            name in self.exact
            or name.startswith(self.starts)
            or name.endswith(self.ends)
            or any(part in name for part in self.contains)
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of which each matching name contains one."""
        return tuple(text for texts in asdict(self).values() for text in texts)


ACCELERATORS: Final[Mapping[str, NamePatterns]] = {
    "names": NamePatterns.of(
        (
            # Any vendor, such as nvidia.com/gpu.shared, nvidia.com/mig-1g.5gb and volcano.sh/vgpu-number.
            *("*gpu", "*/gpu-*", "*/gpu.*", "*/gpus", "*/gpumem*", "*/gpucore*", "*/vgpu*", "*/sgpu-*", "*/qgpu-*"),
            *("gpu.*", "*GPU", "*/GPU*", "*/mig-*", "*/vcuda-*"),
            *("*/tpu", "*/npu", "*/xpu", "*/ipu", "*/gcu", "*/mlu", "*/dcu", "*/vmlu", "*/vdcu"),
            *("amd.com/cpx*", "amd.com/dpx*", "amd.com/qpx*", "amd.com/spx*"),
            *("aws.amazon.com/neuron*", "habana.ai/gaudi*", "npu.intel.com/*", "qualcomm.com/qaic*"),
            *("huawei.com/Ascend*", "huawei.com/npu*", "cambricon.com/*", "hygon.com/dcu*", "enflame.com/*"),
            *("kunlunxin.com/*", "iluvatar.ai/*", "metax-tech.com/*", "mthreads.com/*", "tenstorrent.com/*"),
            *("furiosa.ai/*", "rebellions.ai/*", "cloud-tpus.google.com/*"),
        )
    ),
    "others": NamePatterns.of(("*-fan*", "*-power*", "*-temperature*")),
    "measures": NamePatterns.of(
        (
            *("*gpumem*", "*gpucore*", "*dcumem*", "*dcucore*", "*mlumem*", "*mlucore*", "*/vcuda-*"),
            *("*pu-mem*", "*pu-core*", "*cu-mem*", "*cu-core*", "*lu-mem*", "*lu-core*", "*-memory"),
            *("*.vmem*", "*.vcore*", "*.vMem", "*.vCore", "*/vmem*", "*/vcore*", "*-percentage"),
            *("gpu.intel.com/mem*", "gpu.intel.com/millicores", "gpu.intel.com/tiles", "*_monitoring"),
            "koordinator.sh/gpu",
        )
    ),
    "hundredths": NamePatterns.of(
        (
            "*/vcuda-core",
            "*/qgpu-core",
            "koordinator.sh/gpu",
            "koordinator.sh/gpu-core",
            "koordinator.sh/gpu-memory-ratio",
        )
    ),
}
"""``names``: all resources of accelerators. Of these, ``others`` only support one, and ``measures`` are amounts of one
that are not a count; 100 ``hundredths`` are one accelerator."""


def concerns_accelerator(resource: str) -> bool:
    """Return whether a resource is an accelerator, a share of one, or an amount of one."""
    return ACCELERATORS["names"].match(resource) and not ACCELERATORS["others"].match(resource)


@lru_cache(maxsize=4096)
def is_accelerator(resource: str) -> bool:
    """Return whether one unit of a resource is an accelerator, or a share of one that is allocated as a whole."""
    return concerns_accelerator(resource) and not ACCELERATORS["measures"].match(resource)
