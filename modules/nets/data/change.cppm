// Transformations of whole training batches, such as mixing of samples.
export module lamina:data.change;
import :core;
import :data.augment;
import :data.batch;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Transformation of each batch of `fit` before its step: a function of the batch, whose fields are the model's inputs
/// and then the targets, and of the position for random draws: seed, epoch, and as index the first sample of the batch.
/// Several threads call it at once. If the function changes field types, it has a member
/// `types(std::vector<tensor_type>)` that maps the types of one sample.
export class batch_change {
 public:
  batch_change() = default;
  template <class F>
  requires(!std::same_as<F, batch_change>) && std::is_invocable_v<const F&, sample_batch&, const augment::position&>
  batch_change(F f) : change_(f) {
    if constexpr (requires(const F& g, std::vector<tensor_type> fields) { g.types(fields); })
      types_ = [f](std::vector<tensor_type> fields) -> std::vector<tensor_type> { return f.types(std::move(fields)); };
  }
  explicit operator bool() const { return static_cast<bool>(change_); }
  /// Field types of a sample after the transformation.
  std::vector<tensor_type> types(view<const tensor_type> fields) const;
  /// Errors: type_error if the batch does not match `types`.
  void operator()(sample_batch& batch, const augment::position& at, view<const tensor_type> types) const;

 private:
  std::function<void(sample_batch&, const augment::position&)> change_;
  std::function<std::vector<tensor_type>(std::vector<tensor_type>)> types_;
};

export namespace augment {

/// `mixup` for batches of `fit`: `{.change_batches = augment::batch_mixup{.classes = 10}}`, for a loss that takes
/// probabilities.
/// Errors: type_error for an input that is not float32, and for targets that are neither classes nor rows of float32;
/// value_error for a class outside 0..classes - 1.
struct batch_mixup {
  /// Number of classes: targets become rows of that many probabilities. 0: targets already are such rows.
  std::int64_t classes = 0;
  /// Indices of the mixed fields.
  std::size_t input = 0, target = 1;
  std::vector<tensor_type> types(std::vector<tensor_type> fields) const;
  void operator()(sample_batch& batch, const position& at) const;
};
/// `cutmix` for batches of `fit`, for images [channels x height x width]. Options and errors: as `batch_mixup`.
struct batch_cutmix {
  std::int64_t classes = 0;
  std::size_t input = 0, target = 1;
  std::vector<tensor_type> types(std::vector<tensor_type> fields) const;
  void operator()(sample_batch& batch, const position& at) const;
};

}  // namespace augment

}  // namespace lamina
