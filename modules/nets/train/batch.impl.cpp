// Batches of a data set as operands of a program: read into buffers that are kept, in the element types that the program takes.
module lamina:train.batch.impl;
import :context;
import :core;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Numbers of one type as those of another.
void convert_numbers(dtype from, const void* in, dtype to, void* out, std::int64_t count) {
  with_type(from, [&]<class From>() {
    with_type(to, [&]<class To>() {
      if constexpr (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>) {
        const auto* x = static_cast<const From*>(in);
        auto* y = static_cast<To*>(out);
        for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<To>(x[i]);
      }
    });
  });
}
/// Whether numbers of a field may stand for those that a program takes: of one type, or real for float32 and float64, as integers are too.
bool stands_for(dtype field, dtype taken) {
  return field == taken || (is_real(taken) && (is_real(field) || is_integer(field)));
}

/// The fields of a batch as operands.
class batch_operands {
 public:
  /// `types`: what the program takes for each field.
  explicit batch_operands(std::vector<dtype> types) : types_(std::move(types)) {}

  void load(const sample_source& data, view<const std::int64_t> indices, context& where) {
    const auto fields = data.fields();
    read_.resize(fields.size());
    converted_.resize(fields.size());
    data_.resize(fields.size());
    shapes_.resize(fields.size());
    read(data, indices, where);
    for (std::size_t f = 0; f < fields.size(); ++f) {
      data_[f] = read_[f].data();
      if (fields[f].element == types_[f]) continue;
      const std::int64_t count = shapes_[f].size();
      converted_[f].resize(static_cast<std::size_t>(count) * size_of(types_[f]));
      convert_numbers(fields[f].element, read_[f].data(), types_[f], converted_[f].data(), count);
      data_[f] = converted_[f].data();
    }
  }
  const std::vector<shape>& shapes() const { return shapes_; }
  const std::vector<const void*>& data() const { return data_; }
  const std::vector<dtype>& types() const { return types_; }
  std::int64_t count() const { return shapes_.empty() ? 0 : shapes_[0].at(0); }

 private:
  // Reads runs of samples side by side.
  void read(const sample_source& data, view<const std::int64_t> indices, context& where) {
    static constexpr std::size_t run = 32;
    data.batch_shapes(indices, view<shape>(shapes_));
    for (std::size_t f = 0; f < shapes_.size(); ++f) {
      const tensor_type all{data.fields()[f].element, shapes_[f]};
      if (all.element == dtype::string) {
        text t;
        detail::raise(error_kind::type, t << "data set: field " << static_cast<std::int64_t>(f)
                                          << " is text; expected numbers, as `dataset::map` may make of it");
      }
      read_[f].resize(all.bytes());
    }
    struct job {
      const sample_source& data;
      view<const std::int64_t> indices;
      std::vector<std::vector<std::byte>>& to;
      const std::vector<shape>& shapes;
    } j{data, indices, read_, shapes_};
    auto work = [](void* state, std::size_t i, int) {
      auto& at = *static_cast<job*>(state);
      const std::size_t first = i * run, count = std::min(run, at.indices.size() - first);
      std::vector<void*> to;
      for (auto& block : at.to) to.push_back(block.data() + first * (block.size() / at.indices.size()));
      std::vector<shape> shapes = at.shapes;
      for (auto& s : shapes) s[0] = dim(static_cast<std::int64_t>(count));
      at.data.read(at.indices.subview(first, count), view<void* const>(to), view<const shape>(shapes));
    };
    const std::size_t runs = (indices.size() + run - 1) / run;
    if (runs > 1 && where.threads() > 1) where.pool().run(runs, work, &j);
    else
      for (std::size_t i = 0; i < runs; ++i) work(&j, i, 0);
  }

  std::vector<dtype> types_;
  std::vector<std::vector<std::byte>> read_, converted_;
  std::vector<shape> shapes_;
  std::vector<const void*> data_;
};

}  // namespace lamina
