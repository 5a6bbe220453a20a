"""The table of accelerators: every name of a real device plug-in, in render and in the cases of the rules."""

from __future__ import annotations

from typing import Final

import pytest
import yaml

from trainyard.data import data_folder
from trainyard.jobs.render.accelerators import (
    ACCELERATORS,
    NamePatterns,
    concerns_accelerator,
    is_accelerator,
)

COUNTED: Final = (
    *("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/gpu-h100", "nvidia.com/pgpu", "nvidia.com/gpus"),
    *("nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.shared", "amd.com/gpu", "amd.com/cpx_nps4", "amd.com/dpx_nps1"),
    *("amd.com/qpx_nps1", "amd.com/spx_nps1", "gpu.intel.com/i915", "gpu.intel.com/xe", "npu.intel.com/accel"),
    *("aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice", "google.com/tpu"),
    *("habana.ai/gaudi", "huawei.com/Ascend910", "huawei.com/Ascend310P", "huawei.com/npu", "qualcomm.com/qaic"),
    *("cambricon.com/mlu", "cambricon.com/mlu370", "cambricon.com/vmlu", "hygon.com/dcu", "hygon.com/dcunum"),
    *("enflame.com/gcu", "enflame.com/shared-gcu", "enflame.com/vgcu", "kunlunxin.com/xpu", "kunlunxin.com/vxpu"),
    *("iluvatar.ai/gpu", "iluvatar.ai/MR-V100-vgpu", "metax-tech.com/gpu", "metax-tech.com/sgpu", "mthreads.com/vgpu"),
    *("tenstorrent.com/n150", "furiosa.ai/rngd", "rebellions.ai/ATOM", "cloud-tpus.google.com/v3", "graphcore.ai/ipu"),
    *("example.com/xpu", "example.com/dcu", "volcano.sh/vgpu-number", "volcano.sh/gpu-number", "volcano.sh/vmlu"),
    *("volcano.sh/vdcu", "aliyun.com/gpu-count", "koordinator.sh/gpu.shared", "birentech.com/gpu", "example.com/GPU"),
    *("example.com/GPU-shared", "alpha.kubernetes.io/nvidia-gpu", "example.com/score-gpu"),
)
MEASURES: Final = (
    *("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "example.com/gpu-memory"),
    *("volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores", "volcano.sh/gpu-memory"),
    *("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage", "koordinator.sh/gpu", "koordinator.sh/gpu-core"),
    *("koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio", "tencent.com/vcuda-core"),
    *("tencent.com/vcuda-memory", "tke.cloud.tencent.com/qgpu-core", "tke.cloud.tencent.com/qgpu-memory"),
    *("gpu.intel.com/millicores", "gpu.intel.com/memory.max", "gpu.intel.com/tiles", "gpu.intel.com/i915_monitoring"),
    *("hygon.com/dcumem", "hygon.com/dcucores", "cambricon.com/mlumem", "cambricon.com/mlucores"),
    *("cambricon.com/mlu-mem", "cambricon.com/mlu-core", "enflame.com/gcu-memory", "enflame.com/gcu-core"),
    *("cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory", "huawei.com/Ascend910-memory"),
    *("iluvatar.ai/vcuda-core", "iluvatar.ai/MR-V100.vCore", "iluvatar.ai/MR-V100.vMem", "metax-tech.com/vcore"),
    *("metax-tech.com/vmemory", "mthreads.com/sgpu-core", "mthreads.com/sgpu-memory", "kunlunxin.com/vxpu-memory"),
    "enflame.com/vgcu-percentage",
)
HUNDREDTHS: Final = (
    *("koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"),
    *("tencent.com/vcuda-core", "iluvatar.ai/vcuda-core", "tke.cloud.tencent.com/qgpu-core"),
)
OTHERS: Final = (
    *("cpu", "memory", "pods", "hugepages-2Mi", "rdma/hca", "vpc.amazonaws.com/efa", "nvidia.com/hostdev"),
    *("example.com/gpu-fan", "example.com/gpu-power", "example.com/gpu-temperature", "example.com/not-a-gpu-really"),
    *("example.com/gpudirect", "example.com/inputs", "example.com/memory", "example.com/card", "smarter.example/fan"),
)
SAMPLES: Final = (*COUNTED, *MEASURES, *OTHERS)
FAMILIES: Final = {"RES-001": "quality/RES-001-accelerator-amounts", "ACC-001": "tenancy/ACC-001-accelerators"}


@pytest.mark.parametrize("name", COUNTED)
def test_one_unit_is_an_accelerator(name: str) -> None:
    assert is_accelerator(name)


@pytest.mark.parametrize("name", MEASURES)
def test_memory_and_cores_are_not_counts(name: str) -> None:
    assert concerns_accelerator(name)
    assert not is_accelerator(name)


@pytest.mark.parametrize("name", OTHERS)
def test_other_resources_do_not_concern_accelerators(name: str) -> None:
    assert not concerns_accelerator(name)


def test_hundredths_are_measures() -> None:
    assert [name for name in SAMPLES if ACCELERATORS["hundredths"].match(name)] == sorted(HUNDREDTHS, key=SAMPLES.index)


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        (key, NamePatterns(**{place: (text,)}))
        for key, patterns in ACCELERATORS.items()
        for place in ("exact", "starts", "ends", "contains")
        for text in getattr(patterns, place)
    ],
)
def test_every_pattern_has_a_sample(key: str, pattern: NamePatterns) -> None:
    assert any(pattern.match(name) for name in SAMPLES), f"{key}: add the name of a device plug-in to the samples"


def test_a_pattern_matches_at_its_place() -> None:
    patterns = NamePatterns.of(("a", "b*", "*c", "*d*"))
    assert patterns == NamePatterns(("a",), ("b",), ("c",), ("d",))
    assert [name for name in ("a", "aa", "bx", "xb", "xc", "cx", "xdx") if patterns.match(name)] == [
        *("a", "bx", "xc", "xdx")
    ]


def case(rule: str, name: str) -> dict[str, object]:
    document = yaml.safe_load((data_folder("policies") / FAMILIES[rule] / "cases.yaml").read_text())
    return next(each for each in document["cases"] if each["name"] == name)


def test_the_rules_are_tested_with_every_name() -> None:
    """The engines evaluate these cases; what they find is what render finds."""
    amounts = case("RES-001", "every-name")
    path = "spec.trainer.resourcesPerNode.limits"
    assert list(amounts["add"]["spec.trainer"]["resourcesPerNode"]["limits"]) == list(SAMPLES)  # type: ignore[call-overload,index]
    assert amounts["paths"] == [f"{path}[{name}]" for name in SAMPLES if is_accelerator(name)]
    scheduled = case("ACC-001", "every-name")
    assert list(scheduled["set"]["spec.containers[0].resources.limits"]) == [  # type: ignore[call-overload,index]
        name for name in SAMPLES if concerns_accelerator(name) and ".kubernetes.io/" not in name
    ]
    ignored = case("ACC-001", "every-other-name")
    assert set(ignored["set"]["spec.containers[0].resources.limits"]) <= set(OTHERS)  # type: ignore[call-overload,index]
