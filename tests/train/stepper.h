// One parameter that an optimizer updates step by step. Include it after `import lamina;` and <memory>, <optional>,
// <string>, <vector>.
#pragma once

namespace train_test {

using namespace lamina;
using namespace lamina::ir;

// One parameter w; its gradient is an input of the program.
template <class T> class stepper {
 public:
  template <class O> stepper(const O& o, const std::vector<double>& w, std::optional<shape> extents_of_w = {},
                             const std::string& name = "w", bool prepared = true)
      : name_(name) {
    const shape dims = extents_of_w.value_or(shape{dim(static_cast<std::int64_t>(w.size()))});
    const tensor_type type{dtype_of<T>, dims}, number{dtype_of<T>, {}};
    auto p = std::make_shared<program>();
    lamina::any_tensor start(type);
    for (std::size_t i = 0; i < w.size(); ++i) reinterpret_cast<T*>(start.mutable_data())[i] = static_cast<T>(w[i]);
    store.add(name, start, state_role::parameter);
    value weight = p->state(name, type), g = p->input("g", type), rate = p->input("rate", number),
          step = p->input("step", number);
    joint_update all{{name}, {weight}, {g}, step};
    if constexpr (requires { o.prepare(all); })
      if (prepared) o.prepare(all);
    auto scope = update_scope(*p, store, name, rate, step).prepared(all.prepared);
    p->assign(weight, o.step(scope, weight, all.gradients[0]));
    const shape extents[] = {dims, shape{}, shape{}};
    plan = make_plan(*p, {extents, 3}, target_isa());
    run_ = std::make_unique<executor>(plan, &store);
  }
  std::vector<double> operator()(const std::vector<double>& g, double rate) {
    std::vector<T> narrow(g.begin(), g.end());
    T r = static_cast<T>(rate), t = static_cast<T>(++steps_);
    run_->bind_input(0, narrow.data());
    run_->bind_input(1, &r);
    run_->bind_input(2, &t);
    run_->run();
    auto now = store.find(name_)->value().elements<T>();
    return {now.begin(), now.end()};
  }
  parameter_store store;
  std::shared_ptr<const lamina::plan> plan;

 private:
  std::string name_;
  std::int64_t steps_ = 0;
  std::unique_ptr<executor> run_;
};

}  // namespace train_test
