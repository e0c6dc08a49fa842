"""One step each, in the order of their numbers; see ADR 15 for how to add one."""
