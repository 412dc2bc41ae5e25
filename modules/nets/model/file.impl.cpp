// Parameters in files.
module lamina:model.file.impl;
import :core;
import :dtype;
import :io;
import :model;
import :parameter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

using wanted_parameter = std::pair<std::string, tensor_type>;

// Whether a file of parameters has it.
bool is_saved(const parameter& p) { return p.role() == state_role::parameter || p.role() == state_role::statistic; }

void save_parameters(const parameter_store& store, const std::string& path,
                     const std::map<std::string, std::string>& metadata) {
  std::vector<named_tensor> all;
  for (std::size_t i = 0; i < store.size(); ++i)
    if (is_saved(store[i])) all.push_back({store[i].name(), store[i].value()});
  write_safetensors(path, view<const named_tensor>(all.data(), all.size()), metadata);
}

namespace {
// PyTorch keeps with the statistics of a batch norm how many batches it has seen; nothing here depends on that number.
bool counts_batches(const safetensors_reader::entry& t, const auto& is_known) {
  constexpr std::string_view count = ".num_batches_tracked";
  if (!t.name.ends_with(count) || t.type != tensor_type{dtype::int64, {}}) return false;
  return is_known(t.name.substr(0, t.name.size() - count.size()) + ".running_mean");
}
}  // namespace

// The values of parameters from a file, each in memory of its own; `model` may have states of other names that are there.
std::vector<any_tensor> read_parameters(view<const wanted_parameter> wanted, const parameter_store* model,
                                        const std::string& path) {
  const safetensors_reader file(path);
  auto fail = [&](const std::string& name, auto&&... words) {
    text t;
    t << path << ": parameter `" << printable(name) << "` ";
    ((t << words), ...);
    detail::raise(error_kind::file, t);
  };
  std::vector<const safetensors_reader::entry*> found;
  std::set<std::string_view> names;
  for (const auto& [name, type] : wanted) {
    const auto* v = file.find(name);
    if (!v) fail(name, "is missing");
    if (v->type != type) fail(name, "is ", v->type, " and the model expects ", type);
    found.push_back(v);
    names.insert(name);
  }
  const auto is_known = [&](const std::string& name) { return names.contains(name) || (model && model->find(name)); };
  for (const auto& t : file.tensors)
    if (!is_known(t.name) && !counts_batches(t, is_known))
      fail(t.name, "is in the file, but the model has none of this name");
  std::vector<any_tensor> values;
  for (const auto* v : found) values.push_back(file.read(*v));
  return values;
}

void load_parameters(parameter_store& store, const std::string& path) {
  std::vector<wanted_parameter> wanted;
  std::vector<parameter*> to;
  for (auto& p : store)
    if (is_saved(p)) {
      wanted.emplace_back(p.name(), p.value().type());
      to.push_back(&p);
    }
  // All of them before one is changed, and then into the memory that executors are bound to.
  const auto values = read_parameters(wanted, &store, path);
  for (std::size_t i = 0; i < to.size(); ++i) to[i]->assign(values[i]);
}

}  // namespace lamina
