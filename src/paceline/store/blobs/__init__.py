"""Files of bytes in a folder or an object store, whole or not at all.

::

    blobs         a folder or a URL
    local_files   a local folder, durable
    retries       which trouble may pass by itself
    contents      what never changes, and large values, under what they hash to
"""

from paceline.store.blobs.blobs import BlobStore, digest, is_bare_name
from paceline.store.blobs.contents import (
    FOLDER,
    constants_of,
    describe_bytes,
    digests,
    get_bytes,
    is_constant_name,
    put_bytes,
    read_constants,
    remove_bytes,
    verify_constants,
    write_constants,
)
from paceline.store.blobs.retries import Patience
