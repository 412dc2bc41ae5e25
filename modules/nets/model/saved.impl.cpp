module lamina:saved.impl;
import :context;
import :core;
import :dtype;
import :io;
import :io.document.impl;
import :io.file.impl;
import :io.json_writer.impl;
import :model;
import :parameter;
import :passes;
import :program;
import :reference;
import :saved;
import :structure;
import :structure.read.impl;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using detail::json_kind;
using detail::json_value;

constexpr std::string_view net_format = "lamina net", program_key = "lamina.program";
constexpr std::int64_t net_version = 1;
constexpr std::string_view roles[] = {"parameter", "statistic", "optimizer", "generator"};

// The id of the program, which links the two files.
std::string hex_of(const program_id& id) { return detail::digits_of(id.words); }

std::string structure_json(const program& p, const parameter_store& states) {
  text t;
  t << "{\"format\": \"" << net_format << "\", \"version\": " << net_version << ", \"states\": [";
  for (std::size_t i = 0; i < states.size(); ++i) {
    t << (i ? ",\n  " : "\n  ") << "{\"name\": ";
    detail::quoted(t, states[i].name(), "save_net")
        << ", \"role\": \"" << roles[static_cast<std::size_t>(states[i].role())]
        << "\", \"trainable\": " << states[i].trainable() << "}";
  }
  t << "\n], \"program\": " << p.to_json() << "}\n";
  return t.string();
}

// Reads the states that a structure file names from the weights file.
class state_reader {
 public:
  state_reader(const net_files& files, const program& p) : files_(files), program_(p), weights_(files.weights) {}

  saved_net read(const json_value& states) {
    check_pair();
    saved_net net;
    states.each([&](const json_value& s) { add(net.states, s); });
    for (const auto& t : weights_.tensors)
      if (!net.states.find(t.name))
        weights_failure(t.name, "is in the file, but ", files_.structure, " has none of this name");
    for (auto n : program_.states()) {
      const node& state = program_.at(n);
      const parameter* p = net.states.find(state.name);
      if (!p) structure_failure("the program reads state `", printable(state.name), "`, which is not among `states`");
      if (p->value().type() != state.results[0])
        weights_failure(state.name, "is ", p->value().type(), "; expected ", state.results[0]);
    }
    net.metadata = std::move(weights_.metadata);
    net.metadata.erase(std::string(program_key));
    return net;
  }

 private:
  template <class... T> [[noreturn]] void structure_failure(const T&... parts) const {
    text t;
    ((t << parts), ...);
    detail::file_failure(files_.structure, t);
  }
  template <class... T> [[noreturn]] void weights_failure(std::string_view name, const T&... parts) const {
    text t;
    t << "state `" << printable(name) << "` ";
    ((t << parts), ...);
    detail::file_failure(files_.weights, t);
  }
  void check_pair() const {
    const auto of = weights_.metadata.find(std::string(program_key));
    if (of != weights_.metadata.end() && of->second == hex_of(program_.id())) return;
    text t;
    if (of == weights_.metadata.end())
      t << "metadata `" << program_key << "` is missing, so these are not the weights of a saved net";
    else t << "these weights belong to another net than " << files_.structure << "; save or copy both files together";
    detail::file_failure(files_.weights, t);
  }
  json_value member(const json_value& of, std::string_view name, json_kind kind) const {
    const json_value v = of[name];
    if (!v || !v.is(kind))
      structure_failure("a state's `", name, "` is ", v ? "not " : "missing", v ? name_of(kind) : std::string_view());
    return v;
  }
  void add(parameter_store& to, const json_value& s) const {
    if (!s.is(json_kind::object)) structure_failure("`states` has ", name_of(s.kind()), "; expected objects");
    const auto name = member(s, "name", json_kind::string).string(),
               role = member(s, "role", json_kind::string).string();
    const auto at = std::find(std::begin(roles), std::end(roles), role);
    if (at == std::end(roles)) {
      text t;
      t << files_.structure << ": state `" << printable(name) << "`: the role `" << printable(role) << "` is not known";
      suggest_names(t, printable(role), roles);
      detail::raise(error_kind::unsupported, t);
    }
    if (to.find(name)) structure_failure("two states are named `", printable(name), "`");
    const auto* v = weights_.find(name);
    if (!v) weights_failure(name, "is missing");
    to.add(std::string(name), weights_.read(*v), static_cast<state_role>(at - std::begin(roles)),
           member(s, "trainable", json_kind::boolean).boolean());
  }
  const net_files& files_;
  const program& program_;
  safetensors_reader weights_;
};

}  // namespace

std::vector<named_type> saved_net::inputs() const {
  std::vector<named_type> all;
  if (!program) return all;
  for (auto i : program->inputs()) all.push_back({program->at(i).name, program->at(i).results[0]});
  return all;
}
std::vector<named_type> saved_net::outputs() const {
  std::vector<named_type> all;
  if (!program) return all;
  for (const auto& o : program->outputs()) all.push_back({o.name, program->type(o.value)});
  return all;
}

net_files files_of_net(const std::string& path) {
  std::string name = path;
  for (std::string_view ending : {".json", ".safetensors"})
    if (name.ends_with(ending)) {
      name.resize(name.size() - ending.size());
      break;
    }
  return {name + ".json", name + ".safetensors"};
}

void save_net(const std::string& path, const program& p, const parameter_store& states,
              const std::map<std::string, std::string>& metadata) {
  const auto files = files_of_net(path);
  const auto kept = p.reachable();
  for (auto n : p.states()) {
    const node& state = p.at(n);
    const parameter* v = states.find(state.name);
    text t;
    t << files.structure << ": state `" << state.name << "` of the program is ";
    if (!v && kept[static_cast<std::size_t>(n)]) detail::raise(error_kind::state, t << "not among the states");
    if (v && v->value().type() != state.results[0])
      detail::raise(v->value().element() == state.results[0].element ? error_kind::shape : error_kind::type,
                    t << state.results[0] << ", but its value is " << v->value().type());
  }
  const auto json = structure_json(p, states);
  std::vector<named_tensor> all;
  for (std::size_t i = 0; i < states.size(); ++i) all.push_back({states[i].name(), states[i].value()});
  auto extended = metadata;
  extended[std::string(program_key)] = hex_of(p.id());
  write_safetensors(files.weights, all, extended);
  write_file_atomically(files.structure, [&](writer& out) { out.write(json); });
}

model_core core_of(saved_net net, const model_options& o) {
  if (!net.program) detail::raise(error_kind::state, "the net has no program; it may have been moved from");
  const program& p = *net.program;
  if (!p.assignments().empty()) {
    text t;
    detail::raise(error_kind::unsupported, t << "the net assigns state `"
                                             << printable(p.at(p.assignments()[0].state).name)
                                             << "` when it runs; such nets cannot be trained");
  }
  model_definition d;
  d.inputs = net.inputs();
  d.outputs = net.outputs();
  if (!p.outputs().empty()) d.element = p.type(p.outputs()[0].value).element;
  d.of = std::move(net.program);
  return model_core(std::move(d), o, std::make_unique<parameter_store>(std::move(net.states)));
}

saved_net load_net(const std::string& path, view<const operation* const> own) {
  const auto files = files_of_net(path);
  const detail::mapped_file file(files.structure);
  const detail::json_document document({reinterpret_cast<const char*>(file.data), file.size});
  auto fail = [&](auto&&... parts) {
    text t;
    ((t << parts), ...);
    detail::file_failure(files.structure, t);
  };
  if (!document.reason.empty()) fail(document.reason.view());
  const json_value top = document.root();
  auto member = [&](std::string_view name, json_kind kind) {
    const json_value v = top[name];
    if (!v) fail("`", name, "` is missing");
    if (!v.is(kind)) fail("`", name, "` must be ", name_of(kind), "; got ", name_of(v.kind()));
    return v;
  };
  if (!top.is(json_kind::object)) fail("the document must be an object; got ", name_of(top.kind()));
  if (const auto format = member("format", json_kind::string).string(); format != net_format)
    fail("`format` is `", printable(format), "`; expected `", net_format, "`");
  if (const auto version = member("version", json_kind::integer).integer(); version != net_version) {
    text t;
    detail::raise(error_kind::unsupported, t << files.structure << ": version " << version << " of `" << net_format
                                             << "`; this library reads version " << net_version);
  }
  const json_value states = member("states", json_kind::array);
  auto p = detail::read_program(member("program", json_kind::object), own, files.structure);
  saved_net net = state_reader(files, *p).read(states);
  net.program = std::move(p);
  return net;
}

saved_net precomputed(const program& p, const parameter_store& states, isa set, bool factors) {
  auto made = precomputed(p, factors);
  saved_net net{made.rewritten, {}, {}, std::move(made.missed), std::move(made.recognized)};
  parameter_store all;  // shares the tensors of `states`; owns the weights packed for `values`
  for (const auto& each : states) all.add(each.name(), each.value(), each.role(), each.trainable());
  add_results(*made.values, all, set, net.states);
  for (auto s : net.program->states()) {
    const auto& name = net.program->at(s).name;
    if (const parameter* found = all.find(name); found && !net.states.find(name))
      net.states.add(name, found->value(), found->role(), found->trainable());
  }
  return net;
}

saved_net saved_net::optimized() && {
  saved_net net = precomputed(*program, states, target_isa(), true);
  net.metadata = std::move(metadata);
  return net;
}

}  // namespace lamina
