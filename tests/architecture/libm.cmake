# The functions of libm that kernels may call, as a regular expression.
set(libm "(\
acos|asin|atan|cos|sin|tan|acosh|asinh|atanh|cosh|sinh|tanh|exp|exp2|expm1|log|log2|log10|log1p|pow|sqrt|cbrt|hypot|\
erf|erfc|lgamma|tgamma|ceil|floor|trunc|round|rint|nearbyint|fabs|fmod|remainder|fma|fmin|fmax|ldexp|frexp|scalbn|\
copysign|nextafter|atan2|sincos)f?")
