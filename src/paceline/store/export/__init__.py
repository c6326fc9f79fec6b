"""A cut as files for everybody: safetensors, and the rows of tables."""

from paceline.store.export.export import export_cut, rows_name

__all__ = ["export_cut", "rows_name"]
