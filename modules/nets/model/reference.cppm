// Reference models: many executors over one set of weights, one for each thread that serves.
export module lamina:reference;
import :context;
import :core;
import :execute;
import :model;
import :parameter;
import :program;
import :shape;
import :tensor;
import :topology.check;
import lamina.std;

namespace lamina {

/// How a factory prepares its network.
export struct reference_options {
  /// Computes once what depends on parameters alone: batch norms go into the weights before them. Results then differ in
  /// the last bits from those of the model.
  bool optimize = false;
};

/// Weights and packed forms that all reference models of a factory share; lives until the last of them ends.
export class reference_core {
 public:
  reference_core(model_core&& origin, const reference_options& o);
  const model_definition& definition() const { return definition_; }
  plan_runner runner();
  /// The program of inference, and an executor of one made from it over the shared weights.
  const program& inference() const { return *inference_; }
  std::unique_ptr<executor> bound(const program& p, view<const shape> inputs, bool free_order);
  /// Bytes of the shared weights.
  std::size_t bytes() const { return store_->bytes(); }
  /// Factors and terms that were folded into weights.
  std::int64_t folded() const { return folded_; }

 private:
  model_definition definition_;
  std::int64_t folded_ = 0;
  pass_options passes_;
  std::unique_ptr<parameter_store> store_;
  std::shared_ptr<const program> inference_;
  std::shared_ptr<context> where_;
  std::mutex packing_;
};

/// A network that can be run and nothing else: it shares its weights and packed weights, and owns its arena. Each thread
/// has its own. It has no member that trains, changes, saves or adds.
export template <class Traits>
class reference_model {
 public:
  explicit reference_model(std::shared_ptr<reference_core> core) : core_(std::move(core)), runner_(core_->runner()) {}
  template <detail::InMemory... X>
    requires accepted<worded<detail::call_check<Traits, X...>>()>
  auto operator()(const X&... x) {
    return detail::run_model<Traits>([&](view<const shape> s) -> executor& { return runner_.at(s, core_->definition()); }, x...);
  }
  /// What the reference models of a factory share.
  const std::shared_ptr<reference_core>& shared_part() const { return core_; }
  /// Bytes that this reference model has for itself.
  std::size_t bytes() const { return runner_.bytes(); }

 private:
  std::shared_ptr<reference_core> core_;
  plan_runner runner_;
};

/// Makes reference models, from any number of threads at once.
export template <const auto& Topology, class... Rest>
class reference_factory {
 public:
  using model_type = model<Topology, Rest...>;
  using traits = typename model_type::traits;

  /// From a copy of a model, which stays as it is.
  explicit reference_factory(const model_type& origin, reference_options o = {}) : core_(std::make_shared<reference_core>(model_core(origin.core()), o)) {}
  /// From a model that is given away.
  explicit reference_factory(model_type&& origin, reference_options o = {}) : core_(std::make_shared<reference_core>(std::move(origin.core()), o)) {}
  /// From saved parameters. Errors: file_error.
  static reference_factory from_file(const std::string& path, reference_options o = {}) {
    model_type net;
    load(net, path);
    return reference_factory(std::move(net), o);
  }
  reference_model<traits> create() const { return reference_model<traits>(core_); }
  /// Bytes of the weights that all reference models share.
  std::size_t shared_bytes() const { return core_->bytes(); }
  /// How many factors and terms `optimize` has folded into weights: two for each batch norm that it found.
  std::int64_t folded() const { return core_->folded(); }

 private:
  std::shared_ptr<reference_core> core_;
};

}  // namespace lamina
