"""Room 4: how tightly the trainers march together.

``policy`` interprets the specs of `paceline.config`; ``strategy`` lets users replace some
of its answers. Pure.
"""
