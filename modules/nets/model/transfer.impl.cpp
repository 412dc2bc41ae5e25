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
  for (auto pattern : patterns)
    if (std::none_of(names.begin(), names.end(), [&](const std::string& n) { return matches(pattern, n); }))
      refuse_pattern(on ? "unfreeze" : "freeze", pattern, "parameter", names);
  std::vector<std::string> found;
  bool changes = false;
  for (const auto& n : names) {
    if (std::none_of(patterns.begin(), patterns.end(), [&](auto pattern) { return matches(pattern, n); })) continue;
    parameter& p = *all.find(n);
    changes = changes || p.trainable() != on;
    p.trainable(on);
    found.push_back(n);
  }
  if (changes) all.renew();
  return found;
}

}  // namespace lamina
