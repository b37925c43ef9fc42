"""Functions of functions: grad, vjp, jvp, jacobians, hessians, and modules called with other parameters.

Each takes a function of tensors (or of containers of them) and gives another; they nest, and mix with requires_grad,
backward and freeze.  Results carry a graph exactly when something outside could want to differentiate them: an argument or
a tensor of the closure that requires grad while grad mode is on.
"""
from ._module import functional_call, replace_all_batch_norm_modules_, stack_module_state
from ._transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
           "replace_all_batch_norm_modules_", "stack_module_state", "value_and_grad", "vjp"]
