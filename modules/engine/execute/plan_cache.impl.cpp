module lamina:plan_cache.impl;
import :cache;
import :cache.lru;
import :context;
import :core;
import :execute;
import :passes;
import :plan;
import :plan_cache;
import :program;
import :shape;
import lamina.std;

namespace lamina {

std::size_t plan_key::hash() const {
  std::size_t h = structure.words[0] + static_cast<std::size_t>(isa);
  for (const auto& s : inputs) h = h * 31 + s.hash();
  for (const auto b : known) h = h * 31 + static_cast<std::size_t>(b);
  return h;
}

plan_cache::plan_cache() {
  cache_limits limits = usual;
  if (const char* setting = std::getenv("LAMINA_PLAN_CACHE"); setting && *setting) {
    try {
      limits.entries = cache_capacity(std::string_view(setting));
    } catch (const value_error& e) {
      text t;
      detail::raise(error_kind::value, t << "LAMINA_PLAN_CACHE: " << e.what());
    }
  }
  limit(limits);
}
void plan_cache::limit(const cache_limits& limits) {
  kept_ = std::make_unique<kept>(limits, [](const plan_key& key, const std::shared_ptr<const plan>& p) {
    return sizeof key + key.inputs.size() * sizeof(shape) + key.known.size() + p->bytes();
  });
}

std::vector<std::byte> bytes_of(const program& p, view<const shape> inputs, view<const known_input> known) {
  std::vector<std::byte> bytes;
  for (const auto& k : known) {
    const auto* at = reinterpret_cast<const std::byte*>(&k.input);
    bytes.insert(bytes.end(), at, at + sizeof k.input);
    const auto* data = static_cast<const std::byte*>(k.data);
    const tensor_type type{p.at(p.inputs()[k.input]).results[0].element, inputs[k.input]};
    bytes.insert(bytes.end(), data, data + type.bytes());
  }
  return bytes;
}

std::shared_ptr<const plan> plan_cache::get(const program& p, const program_id& structure, view<const shape> inputs,
                                            isa set, const pass_options& passes, view<const known_input> known) {
  return kept_
      ->get_or_create({structure, {inputs.begin(), inputs.end()}, set, passes, bytes_of(p, inputs, known)},
                      [&] { return make_plan(p, inputs, set, passes, known); })
      .value;
}

}  // namespace lamina
