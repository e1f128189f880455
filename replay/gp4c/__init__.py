"""GP4C's experiment on any log: temporal 5-fold cross-validation, the paper's tables and figures, and its claims."""

from streamsched.replay.gp4c.protocol_experiment import evolve_log, run_protocol
from streamsched.replay.gp4c.protocol_report import report_protocol
from streamsched.replay.gp4c.protocol_results import Choice, Evolved, Outcome, ProtocolResult
from streamsched.replay.gp4c.protocol_settings import ProtocolSettings

__all__ = [
    "Choice",
    "Evolved",
    "Outcome",
    "ProtocolResult",
    "ProtocolSettings",
    "evolve_log",
    "report_protocol",
    "run_protocol",
]
