"""What a cluster gets. Settings are in Pulumi.<stack>.yaml; how each part is installed is in components/."""

from components.common.policy_server import policy_server
from components.jobset import JobSet, JobSetArgs, custom_resource_definition
from components.platform import Platform
from components.policies import Policies
from components.queues import Queues
from components.runtimes import Runtimes
from components.stack import open_stack
from components.tenants import Tenants
from components.topology import Topology
from components.trainer import Trainer, TrainerArgs
from components.volcano import Volcano, VolcanoArgs
from trainyard import scheduler

with open_stack() as stack:
    settings, target, opts = stack.settings, stack.target, stack.options

    volcano = Volcano("volcano", VolcanoArgs(settings.volcano, scheduler.configuration(settings), target), opts)
    jobset = JobSet("jobset", JobSetArgs(settings.jobset, target), opts)
    others = stack.install_others()
    definition = custom_resource_definition(settings.jobset.version)
    trainer = Trainer(
        "trainer",
        TrainerArgs(settings.trainer, target, definition, stack.certificates, policy_server(settings, target)),
        depends_on=[*volcano.crds, *jobset.crds, *others.crds],
        namespaces={**volcano.namespaces, **jobset.namespaces, **others.namespaces},
        opts=opts,
    )
    controllers = [*volcano.ready, *jobset.ready, *others.ready, *trainer.ready]

    platform = Platform("platform", settings, depends_on=[*trainer.crds, *trainer.ready], opts=opts)
    policies = Policies("policies", settings, depends_on=[*controllers, *platform.ready], opts=opts)
    queues = Queues("queues", stack.queues, stack.queue_migration, target.access, depends_on=volcano.ready, opts=opts)
    topology = Topology(
        "topology",
        settings,
        live_nodes=stack.live_nodes,
        access=target.access,
        depends_on=volcano.ready,
        opts=opts,
    )
    runtimes = Runtimes(
        "runtimes", settings.runtimes, access=target.access, depends_on=[*trainer.ready, *platform.ready], opts=opts
    )
    Tenants(
        "tenants",
        settings,
        objects=stack.tenant_objects,
        depends_on=[*controllers, *platform.ready, *policies.ready, *queues.ready, *topology.ready, *runtimes.ready],
        opts=opts,
    )
