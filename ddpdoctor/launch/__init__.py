"""Starting ranks under a deadline, or joining those that a launcher started; no orphans."""
