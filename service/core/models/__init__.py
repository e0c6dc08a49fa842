"""Models, and the device that runs their layers."""
