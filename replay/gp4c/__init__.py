"""GP4C's experiment on any log: temporal 5-fold cross-validation, the paper's tables and figures, and its claims.

`streamsched.replay.gp4c.protocol_summary` prints the tables and `streamsched.replay.gp4c.protocol_report` writes the
report; they need rich, matplotlib and jinja2.
"""

from streamsched.replay.gp4c.protocol_experiment import evolve_log, run_protocol
from streamsched.replay.gp4c.protocol_json import to_json
from streamsched.replay.gp4c.protocol_results import Choice, Evolved, Outcome, ProtocolResult
from streamsched.replay.gp4c.protocol_settings import ProtocolSettings

__all__ = [
    "Choice",
    "Evolved",
    "Outcome",
    "ProtocolResult",
    "ProtocolSettings",
    "evolve_log",
    "run_protocol",
    "to_json",
]
