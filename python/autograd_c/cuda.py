"""There is no CUDA here; these answers keep scripts alive that ask."""


def is_available():
    return False


def device_count():
    return 0


def is_initialized():
    return False


def manual_seed(seed):
    """Without effect."""


def manual_seed_all(seed):
    """Without effect."""


def synchronize(device=None):
    """Without effect."""


def empty_cache():
    """Without effect."""


def current_device():
    raise RuntimeError("autograd_c computes on the CPU only; there is no CUDA device")


def get_device_name(device=None):
    raise RuntimeError("autograd_c computes on the CPU only; there is no CUDA device")
