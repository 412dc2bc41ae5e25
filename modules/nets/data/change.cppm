// Changes of whole batches in training, as mixing their samples.
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

/// What is done with each batch of `fit` before its step: a function of the batch, whose fields are the inputs of the model and then the targets, and of
/// where it draws random numbers: seed and epoch, and as index the sample that the batch begins with. Several threads call it at once.
/// A class that makes other types of fields says them by a member `types(std::vector<tensor_type>)`, of one sample each.
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
  /// The types of the fields of a sample after the change.
  std::vector<tensor_type> types(view<const tensor_type> fields) const;
  /// Errors: type_error where the batch is not of the types that `types` has given.
  void operator()(sample_batch& batch, const augment::position& at, view<const tensor_type> types) const;

 private:
  std::function<void(sample_batch&, const augment::position&)> change_;
  std::function<std::vector<tensor_type>(std::vector<tensor_type>)> types_;
};

export namespace augment {

/// `mixup` of the batches of `fit`: `{.change_batches = augment::batch_mixup{.classes = 10}}`, for a loss that takes probabilities.
/// Errors: type_error for an input that is not float32, and for targets that are neither classes nor rows of float32; value_error for a class outside
/// 0..classes - 1.
struct batch_mixup {
  /// How many classes there are: targets become rows of so many shares. 0: they are such rows.
  std::int64_t classes = 0;
  /// The fields that are mixed.
  std::size_t input = 0, target = 1;
  std::vector<tensor_type> types(std::vector<tensor_type> fields) const;
  void operator()(sample_batch& batch, const position& at) const;
};
/// `cutmix` of the batches of `fit`, of pictures [channels x height x width]. Options and errors: as `batch_mixup`.
struct batch_cutmix {
  std::int64_t classes = 0;
  std::size_t input = 0, target = 1;
  std::vector<tensor_type> types(std::vector<tensor_type> fields) const;
  void operator()(sample_batch& batch, const position& at) const;
};

}  // namespace augment

}  // namespace lamina
