"""When a page or a host may be visited: settings, rules, back-off, host limits, leases, eligibility."""
