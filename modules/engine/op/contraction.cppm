// Products over any axes, in the notation of Einstein, and of what matrices are made.
export module lamina:op.contraction;
import :core;
import :dtype;
import :op;
import :op.linear;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// Of values of programs and nets.

/// Sums of products of operands over axes that an equation names (numpy.einsum, ONNX Einsum): `"bij,bjk->bik"`. Each operand
/// has a letter for each axis, or `...` for several that stand on the left of what broadcasts; a letter twice in one operand is
/// its diagonal. Without `->` the result has the axes of `...`, then each letter that stands once, in the order of the alphabet.
/// Types:   float and integer, all the same.   Cost: one product of matrices for each operand but the first.
/// Errors:  value_error for an equation that does not fit the number of operands, or names an axis that no operand has;
///          shape_error where letters do not fit an operand, or two axes of one letter differ.
export value einsum(std::string_view equation, view<const value> operands, const origin& = {});

/// `matmul` in the sense of numpy.matmul and ONNX MatMul: an operand of one axis is a row on the left and a column on the
/// right, and the axis that it gave is no axis of the result.   Types: float and integer; integers wrap.
export value matmul_any(const value& a, const value& b, const origin& = {});
/// Products of int8 or uint8 without their zero points, as int32 (ONNX MatMulInteger).
/// Shapes:  as `matmul_any`; a zero point is one number, one for each row of a [M], or one for each column of b [N].
/// Types:   int8 and uint8 -> int32; a zero point has the type of its operand.   Numerics: exact; sums wrap.
export value matmul_integer(const value& a, const value& b, const std::optional<value>& a_zero = {},
                            const std::optional<value>& b_zero = {}, const origin& = {});

/// Determinants of matrices, by elimination with the largest pivots.
/// Shapes:  x [..., N, N] with N known and at most 64 -> [...].   Types: float32, float64.   Cost: N steps.
/// Gradient: of matrices that have an inverse.   Errors: shape_error.
export value det(const value& x, const origin& = {});

}  // namespace lamina
