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
  store_ = origin.take_parameters();
}

plan_runner reference_core::runner() { return plan_runner(inference_, store_.get(), where_, passes_, &packing_); }

}  // namespace lamina
