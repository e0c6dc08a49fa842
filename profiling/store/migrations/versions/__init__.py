"""One step each, in the order of their numbers; see ADR 19 for how to add one."""
