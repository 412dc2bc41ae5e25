module lamina:adapter.impl;
import :adapter;
import :context;
import :core;
import :dtype;
import :execute;
import :io;
import :model;
import :model.adapted;
import :parameter;
import :parameter.naming;
import :plan;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

struct lora_access {
  static auto& adapters(auto& m) { return m.adapters_; }
  static auto& weights(auto& m) { return m.weights_; }
  static auto& factors(auto& m) { return m.factors_; }
};
std::size_t merged_lora::bytes() const {
  std::size_t all = 0;
  for (const auto* list : {&weights_, &factors_})
    for (const auto& t : *list) all += t.value.bytes();
  return all;
}

namespace detail {
namespace {
using lora = lora_access;
constexpr std::string_view suffixes[] = {".lora_a", ".lora_b", ".lora_scale"};

// Whether matrix products use the weight as [in, out].
bool is_transposed(const program& p, std::string_view weight) {
  bool any = false;
  for (const auto& n : p.nodes()) {
    if (n.kind != node_kind::operation || n.inputs.size() != 2) continue;
    const node& w = p.at(n.inputs[1]);
    if (w.kind != node_kind::state || w.name != weight) continue;
    const int channels = channels_of_matrix(p, n);
    if (channels == 0) return false;
    any = any || channels == 1;
  }
  return any;
}

bool is_factor(view<const weight_adapter> all, std::string_view name) {
  return std::any_of(all.begin(), all.end(), [&](const auto& a) { return name == a.a() || name == a.b(); });
}
const weight_adapter* adapter_of(view<const weight_adapter> all, std::string_view weight) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.weight == weight; });
  return at == all.end() ? nullptr : at;
}

// Copies the parameters of a model, except the factors of the given adapters.
parameter_store without_factors(const model_core& net, view<const weight_adapter> which) {
  parameter_store kept;
  for (const auto& p : net.parameters())
    if (!is_factor(which, p.name())) kept.add(p.name(), p.copy(), p.role(), p.trainable());
  return kept;
}
// Freezes all parameters that are not factors of an adapter.
void freeze_others(parameter_store& all, view<const weight_adapter> adapters) {
  for (auto& p : all)
    if (p.role() == state_role::parameter && !is_factor(adapters, p.name())) p.trainable(false);
}
// Raises an error if the adapter's parameter names are taken.
void check_free(const parameter_store& all, const weight_adapter& a) {
  text t;
  for (const auto& name : {a.a(), a.b()})
    if (all.find(name))
      raise(error_kind::value, t << "add_lora: the model has a parameter `" << name
                                 << "` that is not a LoRA factor; the weight cannot have an adapter");
}
std::vector<std::string> names_of_weights(view<const weight_adapter> all) {
  std::vector<std::string> names;
  for (const auto& a : all) names.push_back(a.weight);
  return names;
}
void needs_adapters(const model_core& net, std::string_view caller) {
  text t;
  if (net.definition().adapters.empty()) raise(error_kind::state, t << caller << ": the model has no adapters");
}
}  // namespace

std::vector<std::string> add_lora(model_core& net, const std::vector<std::string>& patterns, const lora_options& o) {
  text t;
  if (o.rank < 1 || o.rank > 65536)
    raise(error_kind::value, t << "add_lora: `rank` is " << o.rank << "; expected 1 to 65536");
  if (!std::isfinite(o.alpha))
    raise(error_kind::value, t << "add_lora: `alpha` is " << o.alpha << "; expected a finite number");
  const program& p = net.inference();
  auto adapters = net.definition().adapters;
  std::vector<std::string> names, found;
  for (auto s : p.states()) {
    const node& n = p.at(s);
    const parameter* w = net.parameters().find(n.name);
    if (w && w->role() == state_role::parameter && is_real(n.results[0].element) && n.results[0].dims.rank >= 2 &&
        !is_factor(adapters, n.name))
      names.push_back(n.name);
  }
  for (const auto& pattern : patterns)
    if (std::none_of(names.begin(), names.end(), [&](const auto& n) { return matches(pattern, n); }))
      refuse_pattern("add_lora", pattern, "weight of two axes or more", names);
  parameter_store all = without_factors(net, {});
  for (const auto& n : names) {
    if (std::none_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return matches(pattern, n); }))
      continue;
    if (adapter_of(adapters, n)) raise(error_kind::value, t << "add_lora: weight `" << n << "` has an adapter already");
    adapters.push_back({n, o.rank, o.alpha / static_cast<double>(o.rank), is_transposed(p, n)});
    const weight_adapter& a = adapters.back();
    check_free(all, a);
    const tensor_type w = all.find(n)->value().type();
    const auto s = factors_of(w.dims, a.rank, a.transposed);
    all.make(a.a(), {w.element, s.a}, initializer::kaiming_uniform(s.a.at(1)), o.seed, state_role::parameter);
    all.make(a.b(), {w.element, s.b}, initializer::constant(0), o.seed, state_role::parameter);
    found.push_back(n);
  }
  freeze_others(all, adapters);
  net.adapt(std::move(adapters), std::move(all));
  return found;
}

void save_lora(const model_core& net, const std::string& path) {
  needs_adapters(net, "save_lora");
  std::vector<named_tensor> all;
  for (const auto& a : net.definition().adapters) {
    for (const auto& name : {a.a(), a.b()}) all.push_back({name, net.parameters().find(name)->value()});
    any_tensor scale(tensor_type{dtype::float64, {}});
    std::memcpy(scale.mutable_data(), &a.scale, sizeof a.scale);
    all.push_back({a.weight + std::string(suffixes[2]), scale});
  }
  write_safetensors(path, view<const named_tensor>(all.data(), all.size()), {{"format", "lamina lora 1"}});
}

std::vector<std::string> load_lora(model_core& net, const std::string& path) {
  const safetensors_reader file(path);
  const auto fail = [&](std::string_view name, auto&&... parts) {
    text t;
    t << path << ": `" << printable(name) << "` ";
    ((t << parts), ...);
    raise(error_kind::file, t);
  };
  std::vector<weight_adapter> read;
  std::vector<const safetensors_reader::entry*> factors;
  for (const auto& e : file.tensors) {
    const auto suffix =
        std::find_if(std::begin(suffixes), std::end(suffixes), [&](std::string_view s) { return e.name.ends_with(s); });
    if (suffix == std::end(suffixes)) fail(e.name, "is not part of an adapter");
    const std::string weight = e.name.substr(0, e.name.size() - suffix->size());
    if (!file.find(weight + std::string(suffixes[0]))) fail(weight, "has no `lora_a` in the file");
    if (suffix != std::begin(suffixes)) continue;
    const auto *b = file.find(weight + std::string(suffixes[1])), *s = file.find(weight + std::string(suffixes[2]));
    if (!b || !s) fail(weight, "has no `lora_b` or no `lora_scale` in the file");
    const parameter* w = net.parameters().find(weight);
    if (!w || w->role() != state_role::parameter || net.inference().find_state(weight) < 0)
      fail(weight, "is not a weight that the model reads");
    if (s->type != tensor_type{dtype::float64, {}}) fail(s->name, "is ", s->type, "; expected float64[]");
    const tensor_type& type = w->value().type();
    if (type.dims.rank < 2 || !is_real(type.element))
      fail(weight, "is ", type, "; expected a real type and two axes or more");
    weight_adapter a{weight, e.type.dims.rank == 2 ? e.type.dims.at(0) : 0, 0, is_transposed(net.inference(), weight)};
    const auto expected = factors_of(type.dims, a.rank, a.transposed);
    if (a.rank < 1 || e.type != tensor_type{type.element, expected.a} ||
        b->type != tensor_type{type.element, expected.b})
      fail(weight, "has factors ", e.type, " and ", b->type, ", and is ", type, " in the model");
    const any_tensor scale = file.read(*s);
    std::memcpy(&a.scale, scale.data(), sizeof a.scale);
    if (!std::isfinite(a.scale)) fail(s->name, "is not finite");
    read.push_back(std::move(a));
    factors.push_back(&e);
    factors.push_back(b);
  }
  if (read.empty()) fail("", "has no adapters");
  auto adapters = net.definition().adapters;
  std::erase_if(adapters, [&](const auto& a) { return adapter_of(read, a.weight); });
  adapters.insert(adapters.end(), read.begin(), read.end());
  parameter_store all = without_factors(net, read);
  for (const auto& a : read) {
    text t;
    for (const auto& name : {a.a(), a.b()})
      if (net.parameters().find(name) && !is_factor(net.definition().adapters, name))
        raise(error_kind::value, t << "load_lora: the model already has a parameter `" << name << "`");
  }
  for (const auto* f : factors) all.add(f->name, file.read(*f), state_role::parameter);
  freeze_others(all, adapters);
  net.adapt(std::move(adapters), std::move(all));
  return names_of_weights(read);
}

merged_lora merge_lora(model_core& net) {
  needs_adapters(net, "merge_lora");
  const auto adapters = net.definition().adapters;
  merged_lora base;
  lora::adapters(base) = adapters;
  program p;
  for (const auto& a : adapters) {
    const parameter& w = *net.parameters().find(a.weight);
    const value now = p.state(a.weight, w.value().type());
    p.output(a.weight, adapter_values(p, a, w.value().type()).added_to(now));
    lora::weights(base).push_back({a.weight, w.copy()});
    for (const auto& name : {a.a(), a.b()}) lora::factors(base).push_back({name, net.parameters().find(name)->copy()});
  }
  const auto sums = executor(make_plan(p, {}, net.where()->isa()), &net.parameters()).run({});
  parameter_store all = without_factors(net, adapters);
  for (std::size_t i = 0; i < adapters.size(); ++i) all.find(adapters[i].weight)->assign(sums[i]);
  net.adapt({}, std::move(all));
  return base;
}

void unmerge_lora(model_core& net, const merged_lora& base) {
  text t;
  if (!net.definition().adapters.empty()) raise(error_kind::state, "unmerge_lora: the model has adapters");
  for (const auto& w : lora::weights(base)) {
    const parameter* now = net.parameters().find(w.name);
    if (!now || now->value().type() != w.value.type())
      raise(error_kind::state, t << "unmerge_lora: the model has no weight `" << w.name << "`, " << w.value.type());
  }
  for (const auto& f : lora::factors(base))
    if (net.parameters().find(f.name))
      raise(error_kind::state, t << "unmerge_lora: the model has a parameter `" << f.name << "` already");
  parameter_store all = without_factors(net, {});
  for (const auto& w : lora::weights(base)) all.find(w.name)->assign(w.value);
  for (const auto& f : lora::factors(base)) all.add(f.name, f.value.copy(), state_role::parameter);
  net.adapt(lora::adapters(base), std::move(all));
}

}  // namespace detail
}  // namespace lamina
