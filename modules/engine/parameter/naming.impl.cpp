module lamina:parameter.naming.impl;
import :core;
import :initializer;
import :io;
import :parameter;
import :parameter.naming;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- names ----------------------------------------------------------------------------------------------------------

name_map& name_map::add(std::string_view beginning, std::string_view to) {
  if (beginning.empty()) detail::raise(error_kind::value, "name map: a prefix is empty");
  for (const auto& e : entries_)
    if (e.first == beginning) {
      text t;
      t << "name map: `" << beginning << "` is already mapped to `" << e.second << "`";
      detail::raise(error_kind::value, t);
    }
  entries_.emplace_back(beginning, to);
  return *this;
}

namespace {
/// Whether `beginning` is a whole name or a prefix of it that ends at a separator.
bool begins(std::string_view name, std::string_view beginning) {
  if (!name.starts_with(beginning)) return false;
  auto parts = [](char c) { return c == '.' || c == '/'; };
  return name.size() == beginning.size() || parts(name[beginning.size()]) || parts(beginning.back());
}
[[noreturn]] void refuse(text t, std::string_view meant, view<const std::string> names) {
  std::vector<std::string_view> there(names.begin(), names.end());
  suggest_names(t, meant, there);
  detail::raise(error_kind::value, t);
}
}  // namespace

std::string name_map::operator()(std::string_view name) const {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& e : entries_)
    if (begins(name, e.first) && !(best && best->first.size() > e.first.size())) best = &e;
  return best ? best->second + std::string(name.substr(best->first.size())) : std::string(name);
}

void name_map::check(std::string_view root, view<const std::string> names) const {
  for (const auto& e : entries_) {
    if (!root.empty() && !begins(e.first, root)) continue;
    if (std::any_of(names.begin(), names.end(), [&](const std::string& n) { return begins(n, e.first); })) continue;
    text t;
    refuse(t << "name map: `" << e.first << "` is not a prefix of any parameter name", e.first, names);
  }
}

bool matches(std::string_view pattern, std::string_view name, std::vector<std::string_view>* stars) {
  // The last star and its match, which is extended by one character whenever the rest does not match.
  std::size_t p = 0, n = 0, star = pattern.npos, begin = 0, taken = 0;
  const auto star_ends = [&] {
    if (stars && star != pattern.npos) stars->push_back(name.substr(begin, taken - begin));
  };
  if (stars) stars->clear();
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*') {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star_ends();
      star = p++;
      begin = taken = n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++taken;
    } else return false;
  }
  for (; p < pattern.size() && pattern[p] == '*'; ++p) {
    star_ends();
    star = p;
    begin = taken = n;
  }
  if (p != pattern.size()) return false;
  star_ends();
  return true;
}

std::string renamed(std::string_view name, view<const name_pattern> patterns, view<char> used) {
  std::vector<std::string_view> stars;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (!matches(patterns[i].from, name, &stars)) continue;
    used[i] = 1;
    std::string made;
    std::size_t at = 0;
    for (char c : patterns[i].to)
      if (c == '*') made += stars[at++];
      else made += c;
    return made;
  }
  return std::string(name);
}
void check_patterns(std::string_view caller, view<const name_pattern> patterns) {
  for (const auto& p : patterns) {
    if (std::count(p.to.begin(), p.to.end(), '*') <= std::count(p.from.begin(), p.from.end(), '*')) continue;
    text t;
    t << caller << ": pattern `" << p.to << "` has more `*` than `" << p.from << "`, which fills them";
    detail::raise(error_kind::value, t);
  }
}
void refuse_pattern(std::string_view caller, std::string_view pattern, std::string_view of_what,
                    view<const std::string> names) {
  std::vector<std::string> shown;
  for (const auto& n : names) shown.push_back(printable(n));
  text t;
  refuse(t << caller << ": pattern `" << pattern << "` matches no " << of_what, pattern,
         view<const std::string>(shown.data(), shown.size()));
}

std::vector<std::string> names_that_fit(std::string_view caller, view<const std::string_view> patterns,
                                        std::string_view of_what, view<const std::string> names) {
  std::vector<std::string> found;
  std::vector<char> used(patterns.size());
  for (const auto& n : names) {
    bool fits = false;
    for (std::size_t i = 0; i < patterns.size(); ++i)
      if (matches(patterns[i], n)) fits = used[i] = true;
    if (fits) found.push_back(n);
  }
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (!used[i]) refuse_pattern(caller, patterns[i], of_what, names);
  return found;
}

// ---- named weights --------------------------------------------------------------------------------------------------

load_buffer load_buffer::read(const std::string& path) {
  load_buffer b;
  for (const auto& t : read_safetensors(path).tensors) b.set(t.name, t.value);
  return b;
}
void load_buffer::write(const std::string& path) const {
  std::vector<named_tensor> tensors;
  for (const auto& p : all_) tensors.push_back({p->name(), p->value()});
  write_safetensors(path, view<const named_tensor>(tensors.data(), tensors.size()));
}
void load_buffer::set(std::string name, const any_tensor& v) {
  set(std::make_shared<parameter>(std::move(name), v.copy(), state_role::parameter, true));
}
void load_buffer::set(std::shared_ptr<parameter> p) {
  if (contains(p->name())) {
    text t;
    t << "load buffer: parameter `" << p->name() << "` already exists";
    detail::raise(error_kind::value, t);
  }
  all_.push_back(std::move(p));
}
std::shared_ptr<parameter> load_buffer::find(std::string_view name) const {
  for (const auto& p : all_)
    if (p->name() == name) return p;
  return nullptr;
}

// ---- run-time settings ----------------------------------------------------------------------------------------------

const initializers::exception* initializers::find(std::string_view name) const {
  for (const auto& e : exceptions_)
    if (e.name == name) return &e;
  return nullptr;
}
initializers::exception& initializers::added(std::string name) {
  if (find(name)) {
    text t;
    t << "initializers: parameter `" << name << "` is given twice";
    detail::raise(error_kind::value, t);
  }
  exceptions_.push_back({std::move(name), {}, {}});
  return exceptions_.back();
}
initializers& initializers::fill(std::string name, const initializer& how) {
  added(std::move(name)).how = how;
  return *this;
}
initializers& initializers::set(std::string name, const any_tensor& v) {
  added(std::move(name)).given = v.copy();
  return *this;
}

void initializers::check(std::string_view layer, view<const std::string> names) const {
  if (layer.empty()) return;  // its parameters cannot be distinguished from those of others
  names_.check(layer, names);
  std::vector<std::string> mapped;
  for (const auto& n : names) mapped.push_back(names_(n));
  for (const auto& e : exceptions_) {
    if (!begins(e.name, layer) || std::find(mapped.begin(), mapped.end(), e.name) != mapped.end()) continue;
    text t;
    refuse(t << "initializers: layer `" << layer << "` has no parameter `" << e.name << "`", e.name, mapped);
  }
}

std::shared_ptr<parameter> initializers::make(std::string_view name, const tensor_type& type, const initializer& how,
                                              state_role role, bool trainable, load_buffer* buffer) const {
  const std::string mapped = names_(name);
  auto fits = [&](const any_tensor& v, std::string_view from) {
    if (v.type() == type) return;
    text t;
    t << "parameter `" << mapped << "` is " << type << " and " << from << " has " << v.type();
    detail::raise(v.element() == type.element ? error_kind::shape : error_kind::type, t);
  };
  if (buffer)
    if (auto p = buffer->find(mapped)) {
      fits(p->value(), "the load buffer");
      return p;
    }
  if (!type.dims.is_static()) {
    text t;
    t << "parameter `" << mapped << "` has a shape that is not known: " << type.dims;
    detail::raise(error_kind::shape, t);
  }
  any_tensor value;
  const auto* specified = find(mapped);
  if (specified && specified->given) {
    fits(specified->given, "the initializers'");
    value = specified->given.copy();
  } else {
    value = any_tensor(type);
    lamina::fill(value, specified ? specified->how : how, seed_, mapped);
  }
  auto p = std::make_shared<parameter>(mapped, std::move(value), role, trainable);
  if (buffer) buffer->set(p);
  return p;
}

}  // namespace lamina
