"""How the packages of an extra are installed."""


def installing(extra: str) -> str:
    """What to type: hetune is on no package index."""
    return f"pip install '.[{extra}]' in hetune's checkout"
