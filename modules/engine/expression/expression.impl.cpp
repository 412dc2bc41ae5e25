module lamina:expression.impl;
import :core;
import :expression;
import :op;
import :op.loss;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

void detail::mismatch(std::string_view op, const inference& found, view<const tensor_type> in) {
  raise(found.of_elements ? error_kind::type : error_kind::shape, mismatch_diagnostic(op, found, in));
}

void detail::no_variable(std::string_view name) {
  text t;
  t << "gradient: the expression has no variable named `" << name << "`";
  raise(error_kind::value, t);
}

namespace {
struct found_result {
  static constexpr std::size_t max_operands = 3;
  const void* rule = nullptr;
  shape in[max_operands], result;
};
// A small direct-mapped cache per thread; on a collision the last rule stays.
found_result& found_by(const void* rule) {
  constexpr int bits = 5;
  static thread_local constinit found_result places[1 << bits];
  return places[reinterpret_cast<std::uintptr_t>(rule) * 0x9e3779b97f4a7c15u >> (64 - bits)];
}
}  // namespace

const shape* detail::known_result(const void* rule, view<const tensor_type> in) {
  const found_result& found = found_by(rule);
  if (found.rule != rule) return nullptr;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i].dims != found.in[i]) return nullptr;
  return &found.result;
}

void detail::remember_result(const void* rule, view<const tensor_type> in, const shape& result) {
  if (in.size() > found_result::max_operands) return;
  found_result& found = found_by(rule);
  found.rule = rule;
  for (std::size_t i = 0; i < in.size(); ++i) found.in[i] = in[i].dims;
  found.result = result;
}

value detail::lower_one_hot(const value& position, const value& number, const value& like) {
  return apply<op::one_hot_like>({}, position, number, like);
}

value lowering::input(std::string_view name, const leaf& x, const tensor_type& type) {
  names_.emplace_back(name);
  auto& here = at_[x.data];
  for (auto i : here)
    if (auto& s = seen_[i]; s.name == name && s.at.uniform == x.uniform && s.type == type &&
                            (s.at.extents == x.extents || (s.at.extents && x.extents && *s.at.extents == *x.extents))) {
      aliases_.push_back(s.v.id().node);
      return s.v;
    }
  value v = program_.input(name, type, x.uniform);
  here.push_back(seen_.size());
  seen_.push_back({x, type, v, std::string(name)});
  leaves_.push_back(x);
  aliases_.push_back(v.id().node);
  return v;
}

value lowering::variable(std::string_view name, std::size_t first, const value& of) const {
  // Shared parts lowered before are not visited again; their inputs are found as dependencies of the value.
  std::vector<char> read(!of.empty() ? program_.nodes().size() : 0);
  if (!of.empty()) read[static_cast<std::size_t>(of.id().node)] = 1;
  for (auto i = read.size(); i-- > 0;)
    if (read[i])
      for (auto v : program_.nodes()[i].inputs) read[static_cast<std::size_t>(v.node)] = 1;
  std::int32_t found = -1;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool counts = i >= first || (!of.empty() && read[static_cast<std::size_t>(aliases_[i])]);
    if (!counts || names_[i] != name || aliases_[i] == found) continue;
    if (found >= 0) {
      auto type_of = [&](std::int32_t input) {
        const auto& s =
            *std::find_if(seen_.begin(), seen_.end(), [&](const seen& one) { return one.v.id().node == input; });
        return tensor_type{s.type.element, *s.at.extents};
      };
      const tensor_type a = type_of(found), b = type_of(aliases_[i]);
      text t;
      t << "variable `" << name << "` names two tensors, ";
      if (a.element == b.element) t << a.dims << " and " << b.dims;
      else t << a << " and " << b;
      detail::raise(error_kind::value, t << "; give each its own name");
    }
    found = aliases_[i];
  }
  if (found < 0) detail::no_variable(name);
  return {&program_, {found, 0}};
}

value lowering::known(const void* node) const {
  auto i = known_.find(node);
  return i == known_.end() ? value() : i->second;
}

}  // namespace lamina
