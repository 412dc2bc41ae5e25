// Saving and loading parameters.
module lamina:model.file.impl;
import :core;
import :dtype;
import :io;
import :model;
import :parameter;
import :parameter.naming;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

using expected_parameter = std::pair<std::string, tensor_type>;

// Whether parameter files include it.
bool is_saved(const parameter& p) { return p.role() == state_role::parameter || p.role() == state_role::statistic; }

void save_parameters(const parameter_store& store, const std::string& path,
                     const std::map<std::string, std::string>& metadata) {
  std::vector<named_tensor> all;
  for (std::size_t i = 0; i < store.size(); ++i)
    if (is_saved(store[i])) all.push_back({store[i].name(), store[i].value()});
  write_safetensors(path, view<const named_tensor>(all.data(), all.size()), metadata);
}

namespace {
// Recognizes PyTorch's batch counter beside the running statistics of a batch norm, which is ignored.
bool counts_batches(const safetensors_reader::entry& t, const auto& is_known) {
  constexpr std::string_view count = ".num_batches_tracked";
  if (!t.name.ends_with(count) || t.type != tensor_type{dtype::int64, {}}) return false;
  return is_known(t.name.substr(0, t.name.size() - count.size()) + ".running_mean");
}
}  // namespace

namespace {
using file_entry = safetensors_reader::entry;

// File entries of the wanted parameters; null if missing.
struct file_match {
  std::vector<const file_entry*> found;
  load_report report;
};

file_match match(const safetensors_reader& file, view<const expected_parameter> expected, const parameter_store* model,
                 const std::string& path, const load_options& o) {
  text t;
  file_match m;
  const view<const name_pattern> patterns(o.renames.data(), o.renames.size());
  check_patterns("load", patterns);
  std::vector<char> used(patterns.size());
  std::map<std::string, const file_entry*> there;
  std::vector<std::string> names;
  for (const auto& e : file.tensors) {
    names.push_back(renamed(e.name, patterns, view<char>(used.data(), used.size())));
    if (const auto [first, made] = there.emplace(names.back(), &e); !made)
      detail::raise(error_kind::value, t << path << ": `" << printable(first->second->name) << "` and `"
                                         << printable(e.name) << "` are both renamed to `" << printable(names.back())
                                         << "`");
  }
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (used[i]) continue;
    std::vector<std::string> in_file;
    for (const auto& e : file.tensors) in_file.push_back(e.name);
    refuse_pattern(path, patterns[i].from, "state that earlier patterns leave", in_file);
  }
  std::set<std::string_view> requested;
  for (const auto& [name, type] : expected) {
    const auto at = there.find(name);
    const file_entry* e = at == there.end() ? nullptr : at->second;
    if (!e) m.report.missing.push_back(name);
    else if (e->type != type) m.report.mismatched.push_back({name, e->type, type});
    else m.report.loaded.push_back(name);
    m.found.push_back(e && e->type == type ? e : nullptr);
    requested.insert(name);
  }
  const auto is_known = [&](const std::string& name) {
    return requested.contains(name) || (model && model->find(name));
  };
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!is_known(names[i]) && !counts_batches({names[i], file.tensors[i].type}, is_known))
      m.report.unexpected.push_back(names[i]);
  return m;
}

// Raises the error for the first mismatch that the options do not allow, with the total number.
void check(const load_report& r, const std::string& path, const load_options& o) {
  text t;
  t << path << ": parameter `";
  const std::size_t missing = o.allow_missing ? 0 : r.missing.size(),
                    mismatched = o.allow_mismatched ? 0 : r.mismatched.size(),
                    unexpected = o.allow_unexpected ? 0 : r.unexpected.size();
  if (missing) t << printable(r.missing[0]) << "` is missing";
  else if (mismatched) {
    const auto& m = r.mismatched[0];
    t << printable(m.name) << "` is " << m.in_file << "; expected " << m.in_model;
  } else if (unexpected) t << printable(r.unexpected[0]) << "` is in the file, but the model has none of this name";
  else return;
  if (missing + mismatched + unexpected > 1) {
    t << "; in total " << missing << " are missing, " << mismatched << " have another shape or type, and " << unexpected
      << " are unexpected";
    if (!r.loaded.empty()) t << "; " << r.loaded.size() << " fit";
  }
  detail::raise(error_kind::file, t);
}

// Names and types of the parameters that a file of this store includes.
std::vector<expected_parameter> saved_of(const parameter_store& store) {
  std::vector<expected_parameter> expected;
  for (const auto& p : store)
    if (is_saved(p)) expected.emplace_back(p.name(), p.value().type());
  return expected;
}
}  // namespace

std::string load_report::print() const {
  std::string all;
  const auto line = [&](std::string_view what, const std::string& name, view<const tensor_type> types) {
    text t;
    t << what << ": " << printable(name);
    if (types.size()) t << " is " << types[0] << " in the file and " << types[1] << " in the model";
    all += t.string() + "\n";
  };
  for (const auto& n : missing) line("missing", n, {});
  for (const auto& n : unexpected) line("unexpected", n, {});
  for (const auto& m : mismatched) {
    const tensor_type types[] = {m.in_file, m.in_model};
    line("mismatched", m.name, types);
  }
  return all;
}

// Reads parameters from a file, each into its own memory. The file may also contain states that `model` has under other
// names.
std::vector<any_tensor> read_parameters(view<const expected_parameter> expected, const parameter_store* model,
                                        const std::string& path) {
  const safetensors_reader file(path);
  const file_match m = match(file, expected, model, path, {});
  check(m.report, path, {});
  std::vector<any_tensor> values;
  for (const auto* e : m.found) values.push_back(file.read(*e));
  return values;
}

load_report load_parameters(parameter_store& store, const std::string& path, const load_options& options) {
  const auto expected = saved_of(store);
  const safetensors_reader file(path);
  file_match m = match(file, expected, &store, path, options);
  check(m.report, path, options);
  // Read all values before changing any; then copy into the memory that executors are bound to.
  std::vector<any_tensor> values;
  for (const auto* e : m.found) values.push_back(e ? file.read(*e) : any_tensor());
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (m.found[i]) store.find(expected[i].first)->assign(values[i]);
  return std::move(m.report);
}

load_report compare_parameters(const parameter_store& store, const std::string& path, const load_options& options) {
  return match(safetensors_reader(path), saved_of(store), &store, path, options).report;
}

}  // namespace lamina
