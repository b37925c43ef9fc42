"""There are no accelerators here; these answers keep scripts alive that ask."""


def is_available():
    return False


def device_count():
    return 0


def current_accelerator(check_available=False):
    return None
