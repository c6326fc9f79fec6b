"""Paces as users write them: frozen specs, their checks, and how text becomes one."""
