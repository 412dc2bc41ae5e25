module lamina:reference.impl;
import :context;
import :core;
import :model;
import :parameter;
import :program;
import :reference;
import lamina.std;

namespace lamina {

reference_core::reference_core(model_core&& origin)
    : definition_(origin.definition()), passes_(origin.options().passes), inference_(origin.inference_program()),
      where_(std::make_shared<context>(1, origin.where()->isa())) {
  // What the program of inference reads, and no slots of optimisers or the like.
  auto all = origin.take_parameters();
  store_ = std::make_unique<parameter_store>();
  for (auto s : inference_->states()) {
    const parameter* p = all->find(inference_->at(s).name);
    store_->add(p->name(), p->value(), p->role(), p->trainable());
  }
}

plan_runner reference_core::runner() { return plan_runner(inference_, store_.get(), where_, passes_, &packing_); }

}  // namespace lamina
