"""One way to write a safetensors file that gives the same bytes every time: names sorted, metadata sorted."""
import json
import os

import numpy as np

CODES = {"float32": "F32", "float16": "F16", "int64": "I64"}


def write_tensors(path, tensors, metadata):
    """tensors: name -> numpy array (F32, F16 or I64); metadata: name -> string. Written aside, then renamed."""
    header, at, parts = {"__metadata__": {k: metadata[k] for k in sorted(metadata)}}, 0, []
    for name in sorted(tensors):
        data = np.ascontiguousarray(tensors[name]).astype(tensors[name].dtype.newbyteorder("<"), copy=False)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            raise ValueError(f"{name} has a number that is not finite")
        raw = data.tobytes()
        header[name] = {"dtype": CODES[data.dtype.name], "shape": list(data.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        parts.append(raw)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(parts))
    os.replace(path + ".part", path)
