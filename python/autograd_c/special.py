"""Special functions under PyTorch's names: gamma, error function, Bessel and their kin.

Each is one operation with derivatives of any order, in float32 and float64 (whole numbers are converted).  Errors are a few units of
the last place at most; tests/test_special.py states them.  Shapes are those of the operands, broadcast together where there are two.
"""
from ._call import binary as _binary
from ._call import unary as _unary
from ._elementwise import erf, erfc, exp2, expm1, log1p, logit, round
from ._elementwise import sigmoid as expit
from ._more import sinc
from ._reduce import log_softmax, logsumexp, softmax
from ._special import digamma, erfinv, i0, polygamma, xlogy
from ._special import lgamma as gammaln
from ._special import mvlgamma as multigammaln

psi = digamma
i0e = _unary("i0e", "special_i0e", "exp(-|input|) * i0(input), elementwise.")
i1 = _unary("i1", "special_i1", "Modified Bessel function of the first kind of order 1, elementwise.")
i1e = _unary("i1e", "special_i1e", "exp(-|input|) * i1(input), elementwise.")
erfcx = _unary("erfcx", "special_erfcx", "exp(input**2) * erfc(input), elementwise.")
ndtr = _unary("ndtr", "special_ndtr", "Area under the standard normal density left of input, elementwise.")
log_ndtr = _unary("log_ndtr", "special_log_ndtr", "log(ndtr(input)), elementwise, without loss far left and right.")
ndtri = _unary("ndtri", "special_ndtri", "Inverse of ndtr, elementwise: infinite at 0 and 1, NaN outside of [0, 1].")
entr = _unary("entr", "special_entr", "-input * log(input), elementwise: 0 at 0, minus infinity at negative numbers.")
xlog1py = _binary("xlog1py", "special_xlog1py", doc="input * log1p(other), 0 where input is 0 and other no NaN; one of them may be a number.")
zeta = _binary("zeta", "special_zeta", doc="Hurwitz' zeta function, the sum of (k + other)**-input over k >= 0; one of them may be a number.\n\n"
               "There is a derivative in other alone.")

__all__ = ["digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e", "log1p",
           "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "sinc", "softmax",
           "xlog1py", "xlogy", "zeta"]
