"""The Scheduler: builds and leases batches, quotas, panel, surge probes, explanations; durable; evolving."""
