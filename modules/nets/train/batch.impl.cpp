// Batches as operands of a program, converted to its element types.
module lamina:train.batch.impl;
import :core;
import :data.batch;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Converts real numbers or integers to another type.
template <class To> void convert_numbers(dtype from, const void* in, void* out, std::int64_t count) {
  with_type(from, [&]<class From>() {
    if constexpr (std::is_arithmetic_v<From>) {
      const auto* x = static_cast<const From*>(in);
      auto* y = static_cast<To*>(out);
      for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<To>(x[i]);
    }
  });
}
/// Whether a field's numbers are accepted for an input type: the same type, or real numbers and integers for float32
/// and float64.
bool converts_to(dtype field, dtype taken) {
  return field == taken || (is_real(taken) && (is_real(field) || is_integer(field)));
}

/// Address of a batch field in the type that a program takes (its own, float32, float64 or int64): in the batch, or
/// converted in `buffer`.
const void* operand_of(const sample_batch& b, std::size_t field, dtype taken, std::vector<std::byte>& buffer) {
  const tensor_type& type = b.type(field);
  if (type.element == taken) return b.data(field);
  const std::int64_t count = type.dims.size();
  buffer.resize(static_cast<std::size_t>(count) * size_of(taken));
  const auto convert = taken == dtype::float32   ? convert_numbers<float>
                       : taken == dtype::float64 ? convert_numbers<double>
                                                 : convert_numbers<std::int64_t>;
  convert(type.element, b.data(field), buffer.data(), count);
  return buffer.data();
}

/// The fields of a batch as operands.
class batch_operands {
 public:
  /// `types`: the program's input type for each field.
  explicit batch_operands(std::vector<dtype> types) : types_(std::move(types)) {}

  /// Sets the operands to a batch, which must stay in place until the next call.   Errors: type_error for a field of
  /// strings.
  void load(const sample_batch& b) {
    converted_.resize(b.fields());
    data_.resize(b.fields());
    shapes_.resize(b.fields());
    for (std::size_t f = 0; f < b.fields(); ++f) {
      const tensor_type& type = b.type(f);
      if (type.element == dtype::string) {
        text t;
        detail::raise(error_kind::type, t << "data set: field " << static_cast<std::int64_t>(f)
                                          << " is text; expected numbers: convert it with `dataset::map`");
      }
      shapes_[f] = type.dims;
      data_[f] = operand_of(b, f, types_[f], converted_[f]);
    }
  }
  /// Sets the operands to a range of samples of `of`, without a copy.
  void load(const batch_operands& of, std::int64_t first, std::int64_t count) {
    shapes_ = of.shapes_;
    data_ = of.data_;
    for (std::size_t f = 0; f < shapes_.size(); ++f) {
      const auto row = static_cast<std::size_t>(shapes_[f].size(1, shapes_[f].rank)) * size_of(types_[f]);
      shapes_[f][0] = dim(count);
      data_[f] = static_cast<const std::byte*>(data_[f]) + static_cast<std::size_t>(first) * row;
    }
  }
  const std::vector<shape>& shapes() const { return shapes_; }
  const std::vector<const void*>& data() const { return data_; }
  const std::vector<dtype>& types() const { return types_; }
  std::int64_t count() const { return shapes_.empty() ? 0 : shapes_[0].at(0); }

 private:
  std::vector<dtype> types_;
  std::vector<std::vector<std::byte>> converted_;
  std::vector<shape> shapes_;
  std::vector<const void*> data_;
};

/// The samples 0 to n - 1 in batches.
batch_plan in_order(std::int64_t n, std::int64_t size) { return {n, batch_options{.batch = size}}; }

}  // namespace lamina
