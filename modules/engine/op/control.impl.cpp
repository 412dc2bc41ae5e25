module lamina:op.control.impl;
import :core;
import :op;
import :op.control;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

std::vector<value> call(std::shared_ptr<const program> subprogram, view<const value> operands) {
  text t;
  if (!subprogram->states().empty() || !subprogram->assignments().empty()) detail::raise(error_kind::state, "call: a subprogram has no states of its own");
  if (operands.empty()) detail::raise(error_kind::value, "call: a subprogram takes at least one operand");
  if (operands.size() != subprogram->inputs().size()) {
    t << "call: the subprogram takes " << subprogram->inputs().size() << " operands and is given " << operands.size();
    detail::raise(error_kind::value, t);
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& wanted = subprogram->at(subprogram->inputs()[i]).results[0];
    if (wanted.element != operands[i].type().element || !fits(wanted.dims, operands[i].type().dims)) {
      t << "call: operand " << i << " is " << operands[i].type() << ", and the subprogram takes " << wanted;
      detail::raise(error_kind::shape, t);
    }
  }
  program& owner = operands[0].owner();
  auto outputs = subprogram->outputs().size();
  value_id id = owner.add(record<op::call>, std::make_shared<const no_attributes>(), operands, {std::move(subprogram)});
  std::vector<value> results;
  for (std::size_t i = 0; i < outputs; ++i) results.emplace_back(&owner, value_id{id.node, static_cast<std::int32_t>(i)});
  return results;
}

// A call of the program that computes the gradients of the subprogram's inputs from its inputs and the gradients of its outputs.
void op::call::gradient(gradient_call& c) {
  const program& forward = *c.of.subprograms[0];
  auto backward = std::make_shared<program>();
  std::vector<value> arguments, inputs, of, start, wanted;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(backward->input(forward.at(forward.inputs()[i]).name, c(i).type()));
    arguments.push_back(c(i));
  }
  auto outputs = backward->inlined(forward, inputs);
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    if (!c.gradients[r]) continue;
    of.push_back(outputs[r]);
    start.push_back(backward->input("gradient", c.gradients[r].type()));
    arguments.push_back(c.gradients[r]);
  }
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (c.wanted[i]) wanted.push_back(inputs[i]);
  auto found = c.reverse(*backward, of, start, wanted);
  for (const auto& g : found) backward->output("gradient", g);
  auto results = lamina::call(backward, arguments);
  std::size_t next = 0;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (c.wanted[i]) c.out[i] = results[next++];
}

}  // namespace lamina
