// What products round their operands to.
export module lamina:product_type;
import :dtype;

namespace lamina {

struct half_kernels;
extern const half_kernels half_products;

/// What products round their float32 operands to before they multiply, with sums in float32: bfloat16 or float16; float32 leaves them as they
/// are. It is a `dtype` that knows its kernels: a program that names float32 alone, or nothing, links none of the others.
struct product_type {
  constexpr product_type() = default;
  constexpr product_type(dtype to) : type_(to), kernels_(to == dtype::float32 ? nullptr : &half_products) {}
  constexpr operator dtype() const { return type_; }

  // Public only because attributes are template arguments, whose types must be structural. Kernels are null for float32.
  dtype type_ = dtype::float32;
  const half_kernels* kernels_ = nullptr;
};

}  // namespace lamina
