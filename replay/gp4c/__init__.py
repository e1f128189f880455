"""GP4C's experiment on a log of one's own: temporal 5-fold, the paper's tables and figures, and a verdict on its claim.

The tables for the terminal and the report, which need rich and matplotlib, stand in
`streamsched.replay.gp4c.tables` and `streamsched.replay.gp4c.protocol_report`.
"""

from streamsched.replay.gp4c.protocol_experiment import evolve_log, run_protocol
from streamsched.replay.gp4c.protocol_results import Choice, Evolved, Outcome, ProtocolResult, to_json
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
