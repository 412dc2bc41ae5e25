// Updates with several gradients per batch: all succeed, or nothing is changed.
module lamina:train.rollback.impl;
import :core;
import :parameter;
import :tensor;
import lamina.std;

namespace lamina {

constexpr std::string_view step_name = "optimizer.step";

/// Copies of the training states before an update.
class state_copies {
 public:
  /// Rounds the update counter up to a multiple of `parts`, since another optimizer may have counted it, and runs an
  /// update that assigns the states `parts` times. Restores them, the counter included, if it fails.
  template <class F> auto whole(parameter_store& store, int parts, F update) {
    copy(store);
    try {
      if (parameter* count = store.find(step_name)) {
        auto* n = reinterpret_cast<float*>(count->mutable_data());
        *n = std::ceil(*n / static_cast<float>(parts)) * static_cast<float>(parts);
        count->changed();
      }
      return update();
    } catch (...) {
      put_back(store);
      throw;
    }
  }

 private:
  void copy(const parameter_store& store) {
    bool fits = copies_.size() == store.size();
    for (std::size_t i = 0; fits && i < store.size(); ++i) fits = copies_[i].type() == store[i].value().type();
    if (!fits) {
      copies_.clear();
      for (const auto& p : store) copies_.emplace_back(p.value().type());
    }
    for (std::size_t i = 0; i < store.size(); ++i)
      if (store[i].has_elements() && copies_[i].bytes())
        std::memcpy(copies_[i].mutable_data(), store[i].value().data(), copies_[i].bytes());
  }
  void put_back(parameter_store& store) const {
    for (std::size_t i = 0; i < copies_.size() && i < store.size(); ++i) {
      if (!store[i].has_elements() || !copies_[i].bytes()) continue;
      std::memcpy(store[i].mutable_data(), copies_[i].data(), copies_[i].bytes());
      store[i].changed();
    }
  }
  std::vector<any_tensor> copies_;
};

}  // namespace lamina
