"""Who may call what and how often: tokens, limits of rate, the audit log."""
