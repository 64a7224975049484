"""The watcher: it observes a job until it ends, and collects evidence when the job stalls."""
