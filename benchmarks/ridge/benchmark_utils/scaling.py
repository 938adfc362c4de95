"""The paper's scaling: every row is divided by the average row norm."""

import numpy as np
from scipy import sparse


def scaled_rows(X):
    """X in float64 over its average row norm; a sparse X in CSR with 32-bit indices."""
    if sparse.issparse(X):
        X = sparse.csr_matrix(X, dtype=np.float64)  # lightning and cyanure take no sparse arrays
        X.sort_indices()
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        norms = sparse.linalg.norm(X, axis=1)
    else:
        X = np.array(X, dtype=np.float64, order="C")
        norms = np.linalg.norm(X, axis=1)
    X /= norms.mean()
    return X
