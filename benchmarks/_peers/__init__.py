"""What hetune is compared with, and hetune itself, behind one interface."""
