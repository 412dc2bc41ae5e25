module lamina:reference.impl;
import :context;
import :core;
import :execute;
import :model;
import :optimize;
import :parameter;
import :program;
import :reference;
import :tensor;
import lamina.std;

namespace lamina {

namespace {
// Runs a program of states alone; its outputs become parameters.
void add_results(const program& values, parameter_store& from, isa set, parameter_store& to) {
  if (values.outputs().empty()) return;
  executor run(make_plan(values, {}, set), &from);
  std::vector<any_tensor> made;
  for (const auto& o : values.outputs()) made.emplace_back(values.type(o.value));
  for (std::size_t i = 0; i < made.size(); ++i) run.bind_output(i, made[i].mutable_data());
  run.run();
  for (std::size_t i = 0; i < made.size(); ++i) to.add(values.outputs()[i].name, std::move(made[i]), state_role::parameter, false);
}
}  // namespace

reference_core::reference_core(model_core&& origin, const reference_options& o)
    : definition_(origin.definition()), passes_(origin.options().passes), inference_(origin.inference_program()),
      where_(std::make_shared<context>(1, origin.where()->isa())) {
  // What the program of inference reads, and no slots of optimisers or the like.
  auto all = origin.take_parameters();
  store_ = std::make_unique<parameter_store>();
  if (o.optimize) {
    auto settled = lamina::settled(*inference_);
    inference_ = settled.rewritten;
    folded_ = settled.joined;
    add_results(*settled.values, *all, where_->isa(), *store_);
  }
  for (auto s : inference_->states()) {
    const parameter* p = all->find(inference_->at(s).name);
    if (!p) continue;    // computed just now
    store_->add(p->name(), p->value(), p->role(), p->trainable());
  }
}

std::unique_ptr<executor> reference_core::bound(const program& p, view<const shape> inputs, bool free_order) {
  auto passes = passes_;
  passes.free_order = free_order;
  auto made = make_plan(p, inputs, where_->isa(), passes);
  std::lock_guard lock(packing_);
  return std::make_unique<executor>(std::move(made), store_.get());
}
plan_runner reference_core::runner() { return plan_runner(inference_, store_.get(), where_, passes_, &packing_); }

}  // namespace lamina
