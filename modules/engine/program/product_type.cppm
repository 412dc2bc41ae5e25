// Type to which products round their operands.
export module lamina:product_type;
import :dtype;

namespace lamina {

struct half_kernels;
extern const half_kernels half_products;

/// Type to which products round their float32 operands before multiplying, with float32 sums: bfloat16 or float16;
/// float32 means no rounding. It is a `dtype` with a pointer to its kernels: a program that uses only float32 does not
/// link the others.
struct product_type {
  constexpr product_type() = default;
  constexpr product_type(dtype to) : type_(to), kernels_(to == dtype::float32 ? nullptr : &half_products) {}
  constexpr operator dtype() const { return type_; }

  // Public because attributes are template arguments and thus of structural type. Kernels are null for float32.
  dtype type_ = dtype::float32;
  const half_kernels* kernels_ = nullptr;
};

}  // namespace lamina
