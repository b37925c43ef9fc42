"""Special functions under PyTorch's names: gamma, error function, Bessel and their kin.

Each is one operation with derivatives of any order, in float32 and float64 (whole numbers are converted).  Errors are a few units of
the last place at most; tests/test_special.py states them.  Shapes are those of the operands, broadcast together where there are two.
"""
from ._call import binary as _binary
from ._call import unary as _unary
from ._elementwise import erf, erfc, exp2, expm1, log1p, logit, round, sinc
from ._elementwise import sigmoid as expit
from ._reduce import log_softmax, logsumexp, softmax
from ._special import digamma, erfinv, i0, polygamma, xlogy
from ._special import lgamma as gammaln
from ._special import mvlgamma as multigammaln

psi = digamma
i0e = _unary("i0e")  # exp(-|x|) i0(x)
i1 = _unary("i1")
i1e = _unary("i1e")
erfcx = _unary("erfcx")  # exp(x**2) erfc(x)
ndtr = _unary("ndtr")  # the normal distribution, its logarithm and its inverse
log_ndtr = _unary("log_ndtr")
ndtri = _unary("ndtri")
entr = _unary("entr")  # -x log(x)
xlog1py = _binary("xlog1py")
zeta = _binary("zeta")  # the sum of (k + other)**-input over k >= 0; its derivative is in other alone

__all__ = ["digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e", "log1p",
           "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "sinc", "softmax",
           "xlog1py", "xlogy", "zeta"]
