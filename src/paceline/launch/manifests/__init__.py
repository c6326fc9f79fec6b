"""A job as objects of Kubernetes, in YAML that users read, keep and change.

::

    wish       what they say of it, checked by what Kubernetes takes     (pure)
    filling    templates, `*.yaml`, and what stands in their gaps

Nothing here speaks to a cluster, and no cluster needs anything of paceline's.
"""

from paceline.launch.manifests.filling import Kind, manifest_of
from paceline.launch.manifests.wish import (
    MOST_INDEXES,
    MOST_NAME,
    ManifestWish,
    needs_by_role,
    require_count,
    require_image,
    require_label,
    require_name,
    require_quantity,
    shared_place,
)
