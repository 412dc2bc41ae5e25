// Einstein summation, generalized matrix products, determinants.
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

// For values of programs and nets.

/// Sums of products of operands over axes named by an equation (numpy.einsum, ONNX Einsum): `"bij,bjk->bik"`. An
/// operand has a letter for each axis, or `...` for leading axes that broadcast; a letter repeated in one operand takes
/// its diagonal. Without `->` the result has the axes of `...`, then each unrepeated letter, in alphabetical order.
/// Types:   float and integer, all operands equal.   Cost: one matrix product for each operand but the first.
/// Errors:  value_error for an equation that does not match the number of operands, or names an axis that no operand
///          has; shape_error where letters do not match an operand's rank, or two axes with one letter differ.
export value einsum(std::string_view equation, view<const value> operands, const origin& = {});

/// `matmul` with the semantics of numpy.matmul and ONNX MatMul: a vector is a row on the left and a column on the
/// right, and the axis added for it is dropped from the result.   Types: float and integer; integers wrap.
export value matmul_any(const value& a, const value& b, const origin& = {});
/// Matrix products of int8 or uint8 operands minus their zero points, as int32 (ONNX MatMulInteger).
/// Shapes:  as `matmul_any`; a zero point is one number, one for each row of a [M], or one for each column of b [N].
/// Types:   int8 and uint8 -> int32; a zero point has the type of its operand.   Numerics: exact; sums wrap.
export value matmul_integer(const value& a, const value& b, const std::optional<value>& a_zero = {},
                            const std::optional<value>& b_zero = {}, const origin& = {});

/// Determinants of matrices, by elimination with partial pivoting.
/// Shapes:  x [..., N, N] with N known and at most 64 -> [...].   Types: float32, float64.   Cost: N steps.
/// Gradient: for invertible matrices.   Errors: shape_error.
export value det(const value& x, const origin& = {});

}  // namespace lamina
