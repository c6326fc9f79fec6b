"""Commands as Python calls them.

::

    call       `paceline.run`: what the command does, from a script or a notebook

Nothing here imports torch.
"""

from paceline.cli.called.call import run
