"""Which host, interface or link between hosts is at fault."""
