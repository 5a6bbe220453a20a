"""Differences of torchtune and Flux, and of counting processes."""

from __future__ import annotations

from tests.compatibility.compared_case import NOTHING, Scene, containers, main_container, parallelism, pod
from tests.compatibility.corpus.case import Body
from tests.compatibility.differences.devices import cores, gpus, parts
from tests.compatibility.differences.difference import Difference

_FLUX_DEFAULTS = {
    "FLUX_VIEW_IMAGE": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    "FLUX_NETWORK_DEVICE": "eth0",
    "FLUX_QUEUE_POLICY": "fcfs",
}
_FLUX_FACTS = {"FLUX_NETWORK_DEVICE": "device", "FLUX_QUEUE_POLICY": "queue"}
_KEPT = {"output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"}


def _merged_devices(scene: Scene) -> None:
    if scene.trainer.get("resourcesPerNode") is not None:
        _count_devices(scene)


def _device_names(scene: Scene) -> None:
    if any(parts(entry) for job in scene.trainers() if (entry := main_container(job)) is not None):
        _count_devices(scene)


def _count_devices(scene: Scene) -> None:
    asked = scene.trainer.get("resourcesPerNode") or {}
    for job in scene.trainers():
        entry = main_container(job)
        variables = {variable["name"]: variable for variable in (entry or {}).get("env", ())}
        if entry is None:
            continue
        if "DMLC_NUM_WORKER" in variables:
            variables["DMLC_NUM_WORKER"]["value"] = str(parallelism(job) * max(1, gpus(entry, asked)))
        if "PET_NPROC_PER_NODE" in variables and "numProcPerNode" not in scene.trainer:
            processes = "auto" if gpus(entry, asked) else str(max(1, cores(entry, asked)))
            for each in (
                variable for other in scene.jobs for every in containers(other) for variable in every.get("env", ())
            ):
                if each["name"] == "PET_NPROC_PER_NODE":
                    each["value"] = processes
        if "PET_NPROC_PER_NODE" in variables:
            _choose_recipe(scene, job, gpus(entry, asked), variables["PET_NPROC_PER_NODE"]["value"])


def _choose_recipe(scene: Scene, job: Body, devices: int, processes: str) -> None:
    """Write the recipe of torchtune for one node: that of a single device for one GPU or one process."""
    command = (main_container(job) or {}).get("command", [])
    if scene.trainer.get("command") != ["tune", "run"] or "--config" not in command or parallelism(job) != 1:
        return
    place = command.index("--config")
    recipe, config = command[place - 1], command[place + 1]
    if devices == 1 or processes == "1":
        command[place - 1] = recipe.replace("_distributed", "_single_device")
        command[place + 1] = f"{config.removesuffix('_single_device')}_single_device"
    else:
        command[place - 1] = recipe.replace("_single_device", "_distributed")
        command[place + 1] = config.removesuffix("_single_device")
        endpoint = f"--rdzv_endpoint={scene.job_name}-{job['name']}-0-0.{scene.subdomain}:29500"
        command[2 : place - 1] = [endpoint]


def _torchtune(scene: Scene) -> None:
    given = {item.partition("=")[0] for item in scene.trainer.get("args", [])}
    for job in scene.trainers():
        entry = main_container(job)
        if entry is None or entry.get("command", [])[:2] != ["tune", "run"] or "--config" not in entry["command"]:
            continue
        own = scene.runtime_container(job["name"], "node").get("command", [])
        first = own.index("--config") + 2 if "--config" in own else len(own)
        kept = [
            item
            for place, item in enumerate(own)
            if (key := item.partition("=")[0]) in _KEPT or (place >= first and "=" in item and key not in given)
        ]
        entry["command"] = [*entry["command"][: entry["command"].index("--config") + 2], *kept]


def _torchtune_endpoint(scene: Scene) -> None:
    for job in scene.trainers():
        command = (main_container(job) or {}).get("command", [])
        if command[:2] == ["tune", "run"] and any(item.endswith("_single_device") for item in command):
            command[:] = [item for item in command if not item.startswith("--rdzv_endpoint=")]


def _flux_gpus(scene: Scene) -> None:
    facts, trainer = _flux(scene), next(scene.trainers(), None)
    entry = main_container(trainer) if trainer else None
    if facts is None or entry is None:
        return
    tasks = scene.trainer.get("numProcPerNode", (scene.policy["flux"] or {}).get("numProcPerNode", 1))
    count = gpus(entry, scene.trainer.get("resourcesPerNode"))
    facts["gpus"] = [] if not count else ["0" if count == 1 else f"0-{count - 1}"]
    facts["gpus-of-a-task"] = [str(count // tasks)] if count and count % tasks == 0 else []


def _other_flux_pods(scene: Scene) -> bool:
    trainer = next(scene.trainers(), None)
    return "flux" in scene.policy and (trainer is None or trainer["name"] != "node")


def _flux(scene: Scene) -> Body | None:
    data: Body | None = scene.objects.get(f"ConfigMap/{scene.job_name}-flux-entrypoint", {}).get("data")
    return data


def _flux_scripts(scene: Scene) -> None:
    facts = _flux(scene)
    if facts is not None:
        facts["files"] = ["broker.toml", "entrypoint.sh", "init.sh"]


def _flux_key(scene: Scene) -> None:
    secret = scene.objects.get(f"Secret/{scene.job_name}-flux-curve")
    if secret is not None:
        secret["immutable"] = True


def _flux_volume(scene: Scene) -> None:
    name = f"{scene.job_name}-flux-entrypoint"
    for job in scene.jobs if "flux" in scene.policy else ():
        for volume in pod(job)["spec"].get("volumes", ()):
            if volume["name"] == name:
                volume["name"] = "flux-entrypoint"
        for entry in containers(job):
            for mount in entry.get("volumeMounts", ()):
                if mount["name"] == name:
                    mount["name"] = "flux-entrypoint"


def _flux_settings(scene: Scene) -> None:
    """Replace settings that upstream takes from empty values by the last value that is not, or by the default."""
    trainer = next(scene.trainers(), None)
    if "flux" not in scene.policy or trainer is None or trainer["name"] != "node":
        return
    given = [*scene.runtime_container("node", "node").get("env", []), *scene.trainer.get("env", [])]
    facts = _flux(scene)
    for name, default in _FLUX_DEFAULTS.items():
        values = [entry.get("value") for entry in given if entry["name"] == name]
        if all(values):
            continue
        value = next((value for value in reversed(values) if value), default)
        if facts is not None and name in _FLUX_FACTS:
            facts[_FLUX_FACTS[name]] = [value]
        for entry in pod(trainer)["spec"].get("initContainers", ()):
            if entry["name"] == "flux-installer" and name == "FLUX_VIEW_IMAGE":
                entry["image"] = value


def _flux_memory(scene: Scene) -> None:
    for job in scene.jobs if "flux" in scene.policy else ():
        for entry in containers(job):
            for mount in entry.get("volumeMounts", ()):
                if mount["name"] == "shared-memory":
                    mount.pop("readOnly", None)


def _flux_command(scene: Scene) -> None:
    for job in scene.jobs if "flux" in scene.policy else ():
        entry = main_container(job)
        if entry is None or entry.get("command", [])[:2] != ["/bin/bash", "/etc/flux-config/entrypoint.sh"]:
            continue
        entry["command"] = entry["command"][:2]
        entry.pop("args", None)
        own = scene.runtime_container(job["name"], "node")
        command = scene.trainer.get("command", own.get("command", []))
        words = [*command, *scene.trainer.get("args", own.get("args", []))]
        if words:
            entry["args"] = [*words[0].split(), *words[1:]]


FRAMEWORKS: tuple[Difference, ...] = (
    Difference(
        "merged-devices",
        "Processes of torch, torchtune and XGBoost where the TrainJob sets resources",
        "from the TrainJob's `resourcesPerNode` alone, although the container also has the runtime's",
        "from all resources of the container; a limit of the TrainJob precedes a request of the runtime",
        "a TrainJob that requests more memory would lose the runtime's GPUs",
        objects=_merged_devices,
    ),
    Difference(
        "device-names",
        "Resources that are GPUs",
        "every name that contains `gpu`",
        "not memory and cores of a GPU (`nvidia.com/gpumem`, `nvidia.com/gpucores`, `gpu-memory`), and not names that "
        "only contain the word (`example.com/gpu-fan`)",
        "3031 megabytes are not 3031 devices",
        objects=_device_names,
    ),
    Difference(
        "torchtune-overrides",
        "Overrides in a torchtune runtime's command",
        "only `output_dir`, `tokenizer.path`, `tokenizer.merges_file` and `checkpointer.checkpoint_dir` are kept",
        "all are kept",
        "a runtime's `dataset=…` must not be dropped",
        objects=_torchtune,
    ),
    Difference(
        "torchtune-endpoint",
        "torchtune on one GPU with several processes",
        "a recipe for one device with a rendezvous endpoint",
        "the recipe alone",
        "one process needs no rendezvous",
        objects=_torchtune_endpoint,
    ),
    Difference(
        "flux-scripts",
        "Scripts of Flux",
        "the broker's configuration is written by a script",
        "Trainyard's scripts with the same result; the configuration is a file of the ConfigMap",
        "the configuration is readable without running a script",
        objects=_flux_scripts,
    ),
    Difference(
        "flux-key",
        "Flux key `<job>-flux-curve`",
        "computed from the TrainJob's uid",
        "random, created once; the Secret is immutable",
        "every reader of the TrainJob could compute it",
        objects=_flux_key,
    ),
    Difference(
        "flux-volume",
        "Name of the volume with Flux's scripts",
        "`<job>-flux-entrypoint`",
        "`flux-entrypoint`",
        "a volume name has at most 63 characters, which a long job name exceeds",
        objects=_flux_volume,
    ),
    Difference(
        "flux-memory",
        "`/dev/shm` of Flux jobs",
        "mounted read-only",
        "writable",
        "shared memory must be writable",
        objects=_flux_memory,
    ),
    Difference(
        "flux-settings",
        "Empty `FLUX_VIEW_IMAGE`, `FLUX_NETWORK_DEVICE` or `FLUX_QUEUE_POLICY` in `trainer.env`",
        "used as written: an init container without an image, an address without a device",
        "unset: the runtime's value, or the default",
        "the job could not start",
        objects=_flux_settings,
    ),
    Difference(
        "flux-command",
        "Command of Flux jobs",
        "joined with spaces into one string",
        "passed as separate arguments; only a first element with blanks is split, as upstream's script splits all",
        "arguments with spaces or quotes are preserved",
        objects=_flux_command,
    ),
    Difference(
        "flux-gpus",
        "GPUs of a Flux task (`flux run -g`)",
        "all GPUs of a node for every task, of the TrainJob's `resourcesPerNode` alone if it has one",
        "the container's GPUs divided by the tasks of a node",
        "the tasks of a node could not start together",
        objects=_flux_gpus,
    ),
    Difference(
        "flux-pods",
        "Pods that run Flux",
        "those of replicatedJob `node`, although address and number can be those of another",
        "those of the trainer's replicatedJob, else of `node`",
        "as for every other framework",
        incomparable=_other_flux_pods,
    ),
    Difference(
        "flux-nodes",
        "Flux without `trainer.numNodes`",
        "the controller panics and retries indefinitely without an event",
        "`mlPolicy.numNodes`, else one node",
        "the runtime's number is the default, as elsewhere",
        verdict=lambda scene: "flux" in scene.policy and scene.their_outcome == NOTHING and not scene.mine.errors,
    ),
)
