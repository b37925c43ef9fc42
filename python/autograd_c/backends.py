"""Switches of PyTorch's backends: settable, without effect."""


class _Switches:
    def __init__(self, **values):
        self.__dict__.update(values)

    def is_available(self):
        return False

    def is_built(self):
        return False


cudnn = _Switches(enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
cuda = _Switches(matmul=_Switches(allow_tf32=False))
mps = _Switches()
mkl = _Switches()
openmp = _Switches()
