"""Status server: training code reports its progress, stored in the status of TrainJobs."""

from trainyard.controller.trainer_status.authority import AuthorityUpdater, authority_of
from trainyard.controller.trainer_status.status_server import StatusServer
from trainyard.controller.trainer_status.tokens import TokenReviewer
from trainyard.controller.trainer_status.writer import StatusWriter

__all__ = ["AuthorityUpdater", "StatusServer", "StatusWriter", "TokenReviewer", "authority_of"]
