"""GP4C's experiment on a log of one's own: temporal 5-fold, the paper's tables and figures, and a verdict on its claim.

The tables for the terminal and the report, which need rich and matplotlib, stand in
`streamsched.replay.protocol.tables` and `streamsched.replay.protocol.report`.
"""

from streamsched.replay.protocol.experiment import evolve_log, run_protocol
from streamsched.replay.protocol.results import Choice, Evolved, Outcome, ProtocolResult, to_json
from streamsched.replay.protocol.settings import ProtocolSettings

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
