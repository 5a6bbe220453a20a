"""Written cases of MPI, torchtune and variables for further containers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.compatibility.corpus.case import (
    ANCESTOR,
    Body,
    Draft,
    container,
    replicated_job,
    runtime_spec,
    trainer,
)
from tests.compatibility.corpus.shared import COSCHEDULING, TORCH, VOLCANO, mpi_jobs

LORA = "model.lora_attn_modules=['q_proj']"
TUNE = ["tune", "run", "full_finetune_distributed", "--config", "llama3_2/1B_full", "output_dir=/out", "dataset=x"]


def mpi() -> Iterator[Draft]:
    """Yield MPI jobs with every kind of launcher."""
    gpus = {"resources": {"limits": {"nvidia.com/gpu": 4}}}
    program = {"trainer": {"numNodes": 2, "command": ["mpirun", "x"], "image": "u:1"}}
    both, neither = mpi_jobs(), mpi_jobs()
    both[0]["template"]["metadata"] = {"labels": {ANCESTOR: "trainer"}}
    del neither[1]["template"]["metadata"]
    for name, jobs in {"both-labels": both, "no-label": neither}.items():
        yield Draft(name, runtime_spec(*jobs, mlPolicy={"mpi": {}}), program)
    other_label = mpi_jobs()
    other_label[1]["template"]["metadata"] = {"labels": {ANCESTOR: "other"}}
    asked = {"trainer": {**program["trainer"], "resourcesPerNode": {"limits": {"memory": "1Gi"}}}}
    yield Draft("other-label", runtime_spec(*other_label, mlPolicy={"mpi": {"runLauncherAsNode": True}}), asked)
    queued = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
    many = runtime_spec(*mpi_jobs(), mlPolicy={"mpi": {}, "numNodes": 3})
    yield Draft("kueue-launchers", many, {"trainer": {"numNodes": 4}}, metadata=queued)
    yield Draft("kueue-apart", runtime_spec(*mpi_jobs(), mlPolicy={"mpi": {}}), asked, metadata=queued)
    replaced = runtime_spec(*mpi_jobs(launcher=container("node", **gpus)), mlPolicy={"mpi": {}})
    yield Draft("kueue-resources", replaced, asked, metadata=queued)
    for as_node in (False, True):
        policy: Body = {"mpi": {"runLauncherAsNode": as_node}}
        kind = "as-node" if as_node else "apart"
        for nodes in (1, 2, 5):
            yield Draft(f"{kind}-{nodes}", runtime_spec(*mpi_jobs(), mlPolicy=policy), {"trainer": {"numNodes": nodes}})
        yield Draft(f"{kind}-runtime-nodes", runtime_spec(*mpi_jobs(), mlPolicy={**policy, "numNodes": 4}), {})
        yield Draft(f"{kind}-bare", runtime_spec(*mpi_jobs(), mlPolicy=policy), {})
        asked = {
            "trainer": {
                "numNodes": 2,
                "resourcesPerNode": gpus["resources"],
                "image": "u:1",
                "command": ["mpirun", "x"],
                "env": [{"name": "A", "value": "1"}],
            }
        }
        yield Draft(f"{kind}-asked", runtime_spec(*mpi_jobs(), mlPolicy=policy), asked)
        slots = {"trainer": {"numNodes": 2, "numProcPerNode": 8}}
        yield Draft(f"{kind}-slots", runtime_spec(*mpi_jobs(), mlPolicy=policy), slots)
        jobs = mpi_jobs(launcher=container("node", **gpus), node=container("node", **gpus))
        yield Draft(f"{kind}-gpus", runtime_spec(*jobs, mlPolicy=policy), {"trainer": {"numNodes": 2}})
        uneven = mpi_jobs(launcher=container("node", **gpus))
        yield Draft(f"{kind}-uneven", runtime_spec(*uneven, mlPolicy=policy), {"trainer": {"numNodes": 3}})
        for gang, group in (("volcano", VOLCANO), ("coscheduling", COSCHEDULING)):
            spec = runtime_spec(*mpi_jobs(), mlPolicy=policy, **group)
            yield Draft(f"{kind}-{gang}", spec, {"trainer": {"numNodes": 3}})
        reserved = {"trainer": {"env": [{"name": "OMPI_MCA_plm_rsh_args", "value": "x"}]}}
        yield Draft(f"{kind}-reserved", runtime_spec(*mpi_jobs(), mlPolicy=policy), reserved)
        only = runtime_spec(mpi_jobs(waits=False)[1], mlPolicy=policy)
        yield Draft(f"{kind}-launcher-only", only, {"trainer": {"numNodes": 2}})
        odd = mpi_jobs(launcher=container("node"))
        odd[1]["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "launcher"
        yield Draft(f"{kind}-launcher-container", runtime_spec(*odd, mlPolicy=policy), {"trainer": {"numNodes": 2}})
        ring = {"network": {"subdomain": "ring", "publishNotReadyAddresses": True}}
        yield Draft(
            f"{kind}-subdomain", runtime_spec(*mpi_jobs(), jobset=ring, mlPolicy=policy), {"trainer": {"numNodes": 2}}
        )
        replicas = mpi_jobs()
        replicas[0]["replicas"] = 2
        yield Draft(f"{kind}-replicas", runtime_spec(*replicas, mlPolicy=policy), {"trainer": {"numNodes": 2}})
    for name, policy in (
        ("empty", {"mpiImplementation": ""}),
        ("path", {"sshAuthMountPath": "/home/x/.ssh"}),
        ("slots", {"numProcPerNode": 3}),
    ):
        yield Draft(f"policy-{name}", runtime_spec(*mpi_jobs(), mlPolicy={"mpi": policy}), {"trainer": {"numNodes": 2}})


def torchtune() -> Iterator[Draft]:
    """Yield torchtune jobs of every model and recipe."""
    gpus = {"limits": {"nvidia.com/gpu": 1}}
    options: dict[str, Body] = {
        "full": {},
        "lora": {"args": [LORA]},
        "qlora": {"args": [LORA, "model.quantize_base=True"]},
        "dora": {"args": [LORA, "model.quantize_base=True", "model.use_dora=True"]},
        "quantize-false": {"args": [LORA, "model.quantize_base=False"]},
        "one-gpu": {"resourcesPerNode": gpus},
        "one-gpu-qlora": {"resourcesPerNode": gpus, "args": [LORA, "model.quantize_base=true"]},
        "one-process": {"numProcPerNode": 1},
        "one-process-lora": {"numProcPerNode": 1, "args": [LORA]},
        "two-nodes": {"numNodes": 2},
        "two-nodes-lora": {"numNodes": 2, "args": [LORA]},
        "immutable": {"args": ["batch_size=1", "output_dir=/x"]},
        "tokenizer": {"args": ["tokenizer.path=/x", "checkpointer.checkpoint_dir=/y", "tokenizer.merges_file=/z"]},
        "other-command": {"command": ["tune", "run", "x"]},
        "reserved": {"env": [{"name": "PET_NNODES", "value": "1"}]},
    }
    node = container("node", command=TUNE, resources={"limits": {"nvidia.com/gpu": 2}})
    for model in ("llama3.2-1b", "llama3.2-3b", "llama3.3-70b", "qwen2.5-1.5b"):
        for name, fields in options.items():
            spec = {"trainer": {"command": ["tune", "run"], **fields}}
            yield Draft(
                f"{model.replace('.', '')}-{name}",
                runtime_spec(trainer(containers=[node]), **TORCH),
                spec,
                runtime_name=f"torchtune-{model}",
            )
    for name in (
        "torchtune-gpt-1b",
        "torchtune",
        "tune-llama3.2-1b",
        "torchtune-llama3.2-1b-more",
        "torchtune-llama3.2-7b",
    ):
        spec = {"trainer": {"command": ["tune", "run"]}}
        yield Draft(
            f"name-{name.replace('.', '')}", runtime_spec(trainer(containers=[node]), **TORCH), spec, runtime_name=name
        )
    two = runtime_spec(trainer(containers=[node]), mlPolicy={"torch": {}, "numNodes": 2})
    yield Draft(
        "runtime-nodes",
        two,
        {"trainer": {"command": ["tune", "run"], "args": [LORA]}},
        runtime_name="torchtune-llama3.2-1b",
    )


def injections() -> Iterator[Draft]:
    """Yield runtimes that inject the torch variables elsewhere."""
    helper = container("helper", env=[{"name": "PET_NNODES", "value": "9"}, {"name": "X", "value": "x"}])

    def policy(job: str, *names: str) -> Body:
        return {"mlPolicy": {"torch": {"envInjection": {"targets": [{"jobName": job, "containerNames": list(names)}]}}}}

    node = trainer(containers=[container("node"), helper], pod={"initContainers": [container("setup")]})
    side = replicated_job("side", containers=[helper])
    for name, given in {
        "helper": policy("node", "helper"),
        "init": policy("node", "setup"),
        "both": policy("node", "helper", "setup"),
        "side": policy("side", "helper"),
        "missing-container": policy("node", "nobody"),
        "missing-job": policy("nobody", "helper"),
    }.items():
        yield Draft(name, runtime_spec(side, node, **given), {"trainer": {"numNodes": 2}})
        yield Draft(f"{name}-bare", runtime_spec(side, node, **given), {})
