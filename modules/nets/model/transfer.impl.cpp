module lamina:transfer.impl;
import :core;
import :dtype;
import :parameter;
import :parameter.naming;
import :tensor;
import :transfer;
import lamina.std;

namespace lamina {

std::vector<std::string> set_trainable(parameter_store& all, view<const std::string_view> patterns, bool on) {
  const auto taken = [](const parameter& p) {
    return p.role() == state_role::parameter && is_real(p.value().element());
  };
  std::vector<std::string> names;
  for (const auto& p : all)
    if (taken(p)) names.push_back(p.name());
  auto found = names_that_fit(on ? "unfreeze" : "freeze", patterns, "parameter", names);
  bool changes = false;
  for (const auto& n : found) {
    parameter& p = *all.find(n);
    changes = changes || p.trainable() != on;
    p.trainable(on);
  }
  if (changes) all.renew();
  return found;
}

}  // namespace lamina
