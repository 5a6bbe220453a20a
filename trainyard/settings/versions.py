"""Version table: pinned versions, and the source of each program; the sections of components have their releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainyard.discovery import registered

KUBERNETES_VERSION = "1.36.3"


@dataclass(frozen=True)
class Program:
    """One upstream program.

    Parameters
    ----------
    name
        File name of the program.
    version
        Pinned version without a leading v.
    group
        Folder of ``toolchain/`` whose go.mod pins it.
    package
        Go package of its main function; ``.`` for the folder itself.
    version_arguments
        Arguments to print its version; None: not supported, so a program on PATH is never used.
    peer
        Whether only tests and benchmarks run it, for comparison.
    measured
        Whether only one benchmark runs it, which builds or downloads it itself.
    optional
        Whether it is built only when a Deployment of the platform needs it.
    """

    name: str
    version: str
    group: str
    package: str
    version_arguments: tuple[str, ...] | None = ("--version",)
    peer: bool = False
    measured: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Edit:
    """A replacement in one of the copied sources of a group, for what upstream does not make configurable.

    Parameters
    ----------
    file
        File name of the source.
    old
        Text, which occurs exactly once.
    new
        Its replacement.
    """

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class ProgramGroup:
    """Programs that are built together with a shared go.mod.

    Parameters
    ----------
    name
        Folder of ``toolchain/``.
    stamps
        Values of Go variables set by the linker, such as versions.
    sources
        Files (module, path in the module) that are copied to the folder's sources before the build.
    companions
        Files (module, path in the module) that are installed with the programs.
    edits
        Replacements in the copied sources.
    modules
        Folder of ``toolchain/`` whose go.mod and go.sum pin its modules; empty: its own.
    """

    name: str
    stamps: Mapping[str, str]
    sources: tuple[tuple[str, str], ...] = ()
    companions: tuple[tuple[str, str], ...] = ()
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    modules: str = field(default="", repr=False)


_KUBERNETES_MINOR = KUBERNETES_VERSION.split(".")[1]
_KUBERNETES_STAMPS = {
    "k8s.io/component-base/version.gitVersion": f"v{KUBERNETES_VERSION}",
    "k8s.io/component-base/version.gitMajor": "1",
    "k8s.io/component-base/version.gitMinor": _KUBERNETES_MINOR,
    "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBERNETES_VERSION}",
    "k8s.io/client-go/pkg/version.gitMajor": "1",
    "k8s.io/client-go/pkg/version.gitMinor": _KUBERNETES_MINOR,
}
_PULUMI_KUBERNETES = "github.com/pulumi/pulumi-kubernetes/provider/v4"

PROGRAM_GROUPS: tuple[ProgramGroup, ...] = (
    ProgramGroup("control-plane", _KUBERNETES_STAMPS),
    # A group of its own, so that a change of its source builds no other program again.
    ProgramGroup("api-validator", _KUBERNETES_STAMPS, modules="control-plane"),
    ProgramGroup("node", _KUBERNETES_STAMPS),
    ProgramGroup("kind", _KUBERNETES_STAMPS),
    ProgramGroup("coredns", {}),
    ProgramGroup("local-path-provisioner", {}),
    ProgramGroup("jobset-0.11", {}),
    ProgramGroup("volcano", {"volcano.sh/volcano/pkg/version.Version": "v1.14.1"}),
    ProgramGroup("pulumi", {"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": "3.259.0"}),
    ProgramGroup(
        "pulumi-python-host",
        {},
        companions=(("github.com/pulumi/pulumi/sdk/v3", "python/cmd/pulumi-language-python-exec"),),
    ),
    ProgramGroup(
        "pulumi-kubernetes",
        {f"{_PULUMI_KUBERNETES}/pkg/version.Version": "4.25.0"},
        sources=(
            (_PULUMI_KUBERNETES, "cmd/pulumi-resource-kubernetes/schema.json"),
            (_PULUMI_KUBERNETES, "cmd/pulumi-resource-kubernetes/terraform-mapping.json"),
        ),
    ),
    ProgramGroup("opa", {}),
    ProgramGroup("trainer-upstream", {}),
    ProgramGroup("gatekeeper", {}),
    ProgramGroup(
        "kueue",
        {"sigs.k8s.io/kueue/pkg/version.GitVersion": "v0.16.2"},
        sources=(("sigs.k8s.io/kueue", "cmd/kueue/main.go"),),
        # Without certificates of its own, Kueue reads those of its metrics from this folder of its container.
        edits=(Edit("main.go", '"/etc/kueue/metrics/certs"', 'os.Getenv("KUEUE_METRICS_CERTIFICATES")'),),
    ),
)
"""Every folder of ``toolchain/`` that holds programs."""

PROGRAMS: tuple[Program, ...] = (
    Program("etcd", "3.6.8", "control-plane", "go.etcd.io/etcd/server/v3"),
    Program("kube-apiserver", KUBERNETES_VERSION, "control-plane", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program(
        "kube-controller-manager", KUBERNETES_VERSION, "control-plane", "k8s.io/kubernetes/cmd/kube-controller-manager"
    ),
    Program("kube-scheduler", KUBERNETES_VERSION, "control-plane", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kubectl", KUBERNETES_VERSION, "control-plane", "k8s.io/kubernetes/cmd/kubectl", ("version", "--client")),
    Program("kwok", "0.8.0", "control-plane", "sigs.k8s.io/kwok/cmd/kwok"),
    Program("api-validator", KUBERNETES_VERSION, "api-validator", ".", None),
    Program("kubelet", KUBERNETES_VERSION, "node", "k8s.io/kubernetes/cmd/kubelet", optional=True),
    Program("kube-proxy", KUBERNETES_VERSION, "node", "k8s.io/kubernetes/cmd/kube-proxy", optional=True),
    Program("kubeadm", KUBERNETES_VERSION, "kind", "k8s.io/kubernetes/cmd/kubeadm", ("version",), optional=True),
    Program("kind", "0.33.0", "kind", "sigs.k8s.io/kind", optional=True),
    Program("coredns", "1.14.2", "coredns", "github.com/coredns/coredns", None, optional=True),
    Program(
        "local-path-provisioner",
        "0.0.30",
        "local-path-provisioner",
        "github.com/rancher/local-path-provisioner",
        None,
        optional=True,
    ),
    Program("jobset", "0.12.0", "control-plane", "sigs.k8s.io/jobset", None),
    Program("jobset", "0.11.1", "jobset-0.11", "sigs.k8s.io/jobset", None),
    Program("vc-scheduler", "1.14.1", "volcano", "volcano.sh/volcano/cmd/scheduler"),
    Program("vc-controller-manager", "1.14.1", "volcano", "volcano.sh/volcano/cmd/controller-manager"),
    Program("vc-webhook-manager", "1.14.1", "volcano", "volcano.sh/volcano/cmd/webhook-manager"),
    Program("pulumi", "3.259.0", "pulumi", "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", ("version",)),
    Program(
        "pulumi-language-python",
        "3.79.0",
        "pulumi-python-host",
        "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python",
        None,
    ),
    Program("pulumi-resource-kubernetes", "4.25.0", "pulumi-kubernetes", ".", None),
    Program("opa", "1.22.0", "opa", "github.com/open-policy-agent/opa", ("version",)),
    Program(
        "trainer-controller-manager",
        "2.3.0",
        "trainer-upstream",
        "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
        None,
        peer=True,
    ),
    Program("gatekeeper", "3.23.1", "gatekeeper", "github.com/open-policy-agent/gatekeeper/v3", None, True, True),
    Program("gator", "3.23.1", "gatekeeper", "github.com/open-policy-agent/gatekeeper/v3/cmd/gator", None, True, True),
    Program("kueue", "0.16.2", "kueue", ".", None, optional=True),
)
"""Every program the embedded control plane and the deployment need; the first entry of a name is the current pin."""


@dataclass(frozen=True)
class ComponentRelease:
    """One release of an installed component: the Go module its manifests are read from, and its container tag."""

    module: str
    version: str
    tag: str


def supported_versions(component: str) -> tuple[str, ...]:
    """Return the tested versions of a component, the current pin first."""
    return tuple(release.version for release in _releases(component))


def installed_components() -> tuple[str, ...]:
    """Return the names of the components that are installed from upstream releases."""
    sections = registered("trainyard.settings.sections:SECTIONS")
    return tuple(name for name, section in sections.items() if section.releases)


def component_release(component: str, version: str) -> ComponentRelease:
    """Return the release of a component.

    Raises
    ------
    KeyError
        The version was never tested with this Trainyard.
    """
    for release in _releases(component):
        if release.version == version:
            return release
    raise KeyError(
        f"{component} {version} is not one of the tested versions {', '.join(supported_versions(component))}"
    )


def _releases(component: str) -> tuple[ComponentRelease, ...]:
    found: tuple[ComponentRelease, ...] = registered("trainyard.settings.sections:SECTIONS")[component].releases
    return found
