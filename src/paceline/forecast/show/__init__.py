"""Forecasts for people: a table, a picture."""

from paceline.forecast.show.draw import check_picture, draw_forecasts
from paceline.forecast.show.tables import table_of, text_of

__all__ = ["check_picture", "draw_forecasts", "table_of", "text_of"]
