"""The commands of `hetune`: where each is, and what it is for."""

from hetune.clients.cli.lazy import Source

SOURCES = {
    "build": Source(
        ".build",
        "build",
        "Compile every promoted variant of layers with default options, ahead of time.",
    ),
    "run": Source(
        ".run",
        "run",
        "Run a layer on a graph: load, index, choose, run, and time variants beside each other.",
    ),
    "bench": Source(
        ".run",
        "bench",
        "Compare variants on several graphs: the best of each, and what the choice loses.",
    ),
    "variants": Source(
        ".variants",
        "variants",
        "List the promoted variants of a layer with default options, or show one of them.",
    ),
    "explain": Source(
        ".variants",
        "explain",
        "Say which variant would run on a graph, and why; no kernel is compiled.",
    ),
    "profile": Source(
        ".profile",
        "profile",
        "Measure layers and single kernels on graphs, as a campaign asks, and keep the records.",
    ),
    "train": Source(
        ".models",
        "train",
        "Fit cost models to what was profiled, judge them, and make them the candidate.",
    ),
    "evaluate": Source(
        ".models",
        "evaluate_",
        "Judge a cost model on measured graphs whose families it was not trained on.",
    ),
    "promote": Source(
        ".models",
        "promote",
        "Make a model the champion, unless it loses to the present one or to a fixed variant.",
    ),
    "rollback": Source(
        ".models", "rollback", "Make the champion before the present one the champion again."
    ),
    "models": Source(".models", "models", "List the cost models on the shelf."),
    "calibrate": Source(
        ".calibrate",
        "calibrate",
        "Measure this machine's rates and correct the cost model for it, in under a minute.",
    ),
    "serve": Source(
        ".serve",
        "serve",
        "Serve graphs, models, inference and profiling jobs over HTTP, until it is interrupted.",
    ),
    "worker": Source(
        ".worker", "worker", "Measure what profiling jobs ask for, until it is interrupted."
    ),
    "keys": Source(
        ".keys",
        "app",
        "Make, list and revoke the keys of a service; one that runs need not be started again.",
    ),
    "registry": Source(".registry", "app", "List, check and evict compiled kernels."),
    "store": Source(
        ".store",
        "app",
        "Back up measurements and jobs, restore them, take in others', and remove some.",
    ),
    "remote": Source(
        ".remote", "app", "Use a service that runs somewhere; its key is that of HETUNE_API_KEY."
    ),
}
