"""Pure derivations. A module's `derive(...)` gives the engine the kind that its return annotation names."""
